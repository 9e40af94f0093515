package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/timerslack"
	"gpurun/runner/engine/local/timeslice"
)

// The command of gpurun exec gets the timer slack that gpurun was started with, not
// gpurun's own.
func TestTimersOfExec(t *testing.T) {
	own, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Skip(err)
	}
	want := strings.TrimSpace(string(own))
	if n := timerslack.Original(); n > 0 {
		want = fmt.Sprint(n)
	}
	out := filepath.Join(t.TempDir(), "out")
	argv := []string{"sh", "-c", "cat /proc/self/timerslack_ns >" + out}
	if err := new(app).foreground("/bin/sh", argv, os.Environ(), uninterrupted, func(int) {}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("got %q, %v, want %s ns", got, err, want)
	}
}

// Likewise its CPU time slice.
func TestTimeSliceOfExec(t *testing.T) {
	own, err := unix.SchedGetAttr(0, 0)
	if err != nil || own.Runtime == 0 {
		t.Skip("no time slices here: ", err)
	}
	want := own.Runtime
	if before := timeslice.Original(); before > 0 {
		want = before
	}
	ask := func(pid int) {
		if a, err := unix.SchedGetAttr(pid, 0); err != nil || a.Runtime != want {
			t.Errorf("got %+v, %v, want a slice of %d ns", a, err, want)
		}
	}
	if err := new(app).foreground("/bin/true", []string{"true"}, os.Environ(), uninterrupted, ask); err != nil {
		t.Fatal(err)
	}
}

func uninterrupted() error { return nil }
