package claim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// stressChild runs args[2] short jobs on GPU-0 and GPU-1, claimed below args[0], and records the
// start and end of each in the journal args[1]. At start args[3], it stops itself between
// publishing its claim and reading the others, with the lock held.
func stressChild(args []string) error {
	starts, _ := strconv.Atoi(args[2])
	stopAt, _ := strconv.Atoi(args[3])
	journal, err := os.OpenFile(args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	h := Open([]string{args[0]})
	rivals := 0
	for n := 0; n < starts; {
		if n == stopAt {
			h.published = func() { _ = unix.Kill(os.Getpid(), unix.SIGSTOP) }
			stopAt = -1
		}
		device := gpu.UUID(fmt.Sprint("GPU-", rand.IntN(2)))
		uniID := fmt.Sprint(os.Getpid(), "-", n, "-", rivals)
		others, _, err := h.Claim(context.Background(), Subject{UniID: uniID, Job: uniID, Grant: gpu.Grant{UUIDs: []gpu.UUID{device}}})
		h.published = nil
		if err != nil {
			return err
		}
		if slices.ContainsFunc(others, func(c gpu.Claim) bool { return c.UUID == device }) {
			h.Release(uniID)
			rivals++
			f := fnv.New32a()
			f.Write([]byte(uniID))
			time.Sleep(time.Duration(5+f.Sum32()%46) * time.Millisecond / 5)
			continue
		}
		fmt.Fprintf(journal, "begin %s %d\n", device, os.Getpid())
		if rand.IntN(10) == 0 {
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		}
		fmt.Fprintf(journal, "end %s %d\n", device, os.Getpid())
		h.Release(uniID)
		n++
	}
	fmt.Println("rivals", rivals)
	return nil
}

// check fails if, according to the journal, a job started on a device that another job still held.
// It returns the number of starts by PID.
func check(t *testing.T, path string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	began, on := map[string]int{}, map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // a line that is still being written
		}
		if what, device, pid := f[0], f[1], f[2]; what == "begin" {
			if on[device] != "" {
				t.Fatalf("%s is held by processes %s and %s at the same time", device, on[device], pid)
			}
			on[device] = pid
			began[pid]++
		} else {
			delete(on, device)
		}
	}
	return began
}

func TestSimultaneousClaimsNeverOverlap(t *testing.T) {
	const processes, starts = 4, 300
	root, journal := sharedRoot(t), filepath.Join(t.TempDir(), "journal")
	var all []*child
	for i := range processes {
		stopAt := -1
		if i == 0 {
			stopAt = 20
		}
		all = append(all, start(t, -1, "stress", root, journal, strconv.Itoa(starts), strconv.Itoa(stopAt)))
	}
	stopped := all[0]
	awaitStop(t, stopped.Process.Pid)
	before, at := check(t, journal), time.Now()
	for went := 0; went < processes-1; {
		if time.Since(at) > time.Minute {
			t.Fatalf("with one process stopped while it holds the lock, only %d of %d others continued", went, processes-1)
		}
		time.Sleep(10 * time.Millisecond)
		now := check(t, journal)
		went = 0
		for _, c := range all[1:] {
			if pid := strconv.Itoa(c.Process.Pid); now[pid] > before[pid] {
				went++
			}
		}
	}
	t.Logf("the others continued %v after one was stopped while it held the lock", time.Since(at).Round(time.Millisecond))
	must(t, unix.Kill(stopped.Process.Pid, unix.SIGCONT))
	rivals := ""
	for _, c := range all {
		line, _ := c.said.ReadString('\n')
		rivals += " " + strings.TrimPrefix(strings.TrimSpace(line), "rivals ")
		c.end(t)
	}
	total := 0
	for _, n := range check(t, journal) {
		total += n
	}
	if total != processes*starts {
		t.Errorf("%d starts, want %d", total, processes*starts)
	}
	t.Logf("%d starts, lost races:%s", total, rivals)
}

// awaitStop waits until a process is stopped.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	for range 3000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		if strings.Contains(string(b), ") T ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the process has not stopped itself")
}
