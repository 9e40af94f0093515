package procs

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that reuses the pid of one that is long gone is not part of the attempt, and
// neither is its session: they are neither followed nor ended.
func TestPIDReused(t *testing.T) {
	p := sleeper(t)
	earlier, none := p.ID, ID{}
	earlier.Start -= 100
	for _, c := range []struct {
		name string
		root ID
		want []ID
	}{
		{"itself", p.ID, []ID{p.ID}},
		{"one that had its pid before", earlier, nil},
		{"nobody", none, nil},
	} {
		var all Census
		if got := all.Tree("of no process", []ID{c.root}, time.Now()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// sleeper starts a process in its own session that nobody knows of, and ends it with the
// test.
func sleeper(t *testing.T) Proc {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, ok := One(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not listed")
	}
	return p
}
