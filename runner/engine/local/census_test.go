package local

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
)

// A process that has got the pid of one that is long gone is no part of the
// attempt, and nor is its session: neither is followed, nor would it be ended.
func TestPIDReused(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, ok := procs.One(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not listed")
	}
	earlier, none := p.ID, procs.ID{}
	earlier.Start -= 100
	for _, c := range []struct {
		name string
		root procs.ID
		want []procs.ID
	}{
		{"itself", p.ID, []procs.ID{p.ID}},
		{"one that had its pid before", earlier, nil},
		{"nobody", none, nil},
	} {
		var all census
		if got := all.tree("of no process", []procs.ID{c.root}, time.Now()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
