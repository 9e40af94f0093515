package torture

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is a live process in a place, identified by its environment.
type process struct {
	pid  int
	argv string
}

// marked returns the live processes with mark in their environment.
func marked(mark string) []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || pid == os.Getpid() || !hasMark(env, mark) || zombie(dir) {
			continue
		}
		argv, _ := os.ReadFile(dir + "/cmdline")
		found = append(found, process{pid, strings.TrimSpace(strings.ReplaceAll(string(argv), "\x00", " "))})
	}
	return found
}

func hasMark(env []byte, mark string) bool {
	return bytes.HasPrefix(env, []byte(mark+"\x00")) || bytes.Contains(env, []byte("\x00"+mark+"\x00"))
}

func zombie(dir string) bool {
	b, err := os.ReadFile(dir + "/stat")
	_, after, ok := strings.Cut(string(b), ") ")
	return err != nil || ok && (after[0] == 'Z' || after[0] == 'X')
}

// keepers returns the keepers of the batch whose state is in dir.
func keepers(mark, dir string) []int {
	var pids []int
	for _, p := range marked(mark) {
		if strings.Contains(p.argv, "__keeper "+dir+"/") {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func killMarked(mark string) {
	for range 20 {
		left := marked(mark)
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// noneLeft checks that all processes in a place end.
func noneLeft(t testing.TB, mark string) {
	t.Helper()
	var left []process
	for limit := allow(patience); !limit.over(time.Now()); time.Sleep(20 * time.Millisecond) {
		if left = marked(mark); len(left) == 0 {
			return
		}
	}
	t.Errorf("leftover processes: %v", left)
}

// until waits for a condition, with a deadline.
func until(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for left := allow(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if left.over(time.Now()) {
			t.Fatalf("timed out after %v waiting for %s", limit, what)
		}
	}
}
