package keeper

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"gpurun/runner/engine/procs"
)

// A child that was just forked has its parent's signal handlers until it executes its own program.
// It must not count as the process that catches the signal.
func TestJustForkedChildIsRecognized(t *testing.T) {
	self, _ := procs.One(os.Getpid())
	same := exec.Command("/proc/self/exe", "-test.run=^$", "-test.v=false")
	other := exec.Command("sleep", "10")
	for _, c := range []*exec.Cmd{same, other} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_ = c.Process.Signal(syscall.SIGSTOP) // so that it stays in this state
		defer c.Wait()
		defer c.Process.Kill()
	}
	for _, tt := range []struct {
		cmd  *exec.Cmd
		of   []procs.ID
		want bool
	}{
		{other, []procs.ID{self.ID}, false}, // runs another program
		{other, nil, false},
		{same, nil, false}, // its parent is not one of those that catch the signal
	} {
		p, ok := procs.One(tt.cmd.Process.Pid)
		if !ok {
			t.Fatalf("%s has ended", tt.cmd.Path)
		}
		if got := justForked(p.ID, tt.of); got != tt.want {
			t.Errorf("justForked(%s) = %v, want %v", tt.cmd.Path, got, tt.want)
		}
	}
	for first := time.Now(); ; {
		began := time.Now()
		young := exec.Command("/proc/self/exe", "-test.run=^$", "-test.v=false")
		if err := young.Start(); err != nil {
			t.Fatal(err)
		}
		_ = young.Process.Signal(syscall.SIGSTOP)
		p, _ := procs.One(young.Process.Pid)
		forked := justForked(p.ID, []procs.ID{self.ID})
		alive, age := procs.Alive(p.ID), time.Since(began)
		_, _ = young.Process.Kill(), young.Wait()
		if forked {
			break
		}
		if alive && age < forkedFor-10*time.Millisecond || time.Since(first) > time.Minute { // else the machine was too busy
			t.Fatalf("after %v, a child with its parent's program does not count as just forked", age)
		}
	}
}
