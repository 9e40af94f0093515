package enginetest

import (
	"gpurun/state/host"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mkfifo(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hear reads the next line that a job writes to a FIFO, which shows how far the job
// has got.
func hear(t testing.TB, path string) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0) // read-write, so that opening does not block
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 256)
		n, _ := f.Read(b)
		got <- strings.TrimSpace(string(b[:n]))
	}()
	select {
	case s := <-got:
		return s
	case <-time.After(patience):
		t.Fatalf("nothing arrived on %s", path)
		return ""
	}
}

// awaitGone waits for the end of a process that is not a child of this one.
func awaitGone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or a kernel before 5.3
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if n == 0 {
		t.Fatalf("process %d is still running", pid)
	}
}

// pid parses a PID that a job wrote.
func pid(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("not a PID: %q", s)
	}
	return n
}

// alive reports whether a process is running; zombies are not.
func alive(pid int) bool {
	s, ok := host.StatOf(pid)
	return ok && s.State != 'Z' && s.State != 'X'
}
