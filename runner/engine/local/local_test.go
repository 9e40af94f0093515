package local

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu/claim"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/keeper"
	"gpurun/runner/engine/procs"
)

// These variables set limits of a test's keepers.
const (
	onGPUWithinEnv = "TEST_ON_GPU_WITHIN"
	servedEnv      = "TEST_SERVED"
)

// TestMain lets the test binary act as its own keeper.
func TestMain(m *testing.M) {
	claim.ReadLimit, freshStart = patience/2, patience // a busy machine may need more than the usual time
	if len(os.Args) > 1 && os.Args[1] == "__keeper" {
		limits := keeper.Usual
		limits.Dismissal = patience
		if d, err := time.ParseDuration(os.Getenv(onGPUWithinEnv)); err == nil {
			limits.OnGPUWithin = d
		}
		if d, err := time.ParseDuration(os.Getenv(servedEnv)); err == nil {
			limits.Served = d
		}
		os.Exit(keeper.Main(os.Args[2:], limits))
	}
	children := map[string]func(args []string) error{"runner child": runnerChild, "watch child": watchChild, "stand child": standChild}
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts a child process with pipes to its stdin and stdout, and ends it with the test.
func child(t *testing.T, args ...string) (cmd *exec.Cmd, in io.Closer, said *bufio.Reader) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, in, bufio.NewReader(out)
}

// sleeper starts a process that belongs to no attempt, in its own session, and ends it with the
// test.
func sleeper(t *testing.T) procs.Proc {
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
	p, ok := procs.One(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not listed")
	}
	return p
}

func openLocal(c engine.Config) (*Local, error) {
	e, err := Kind{}.Open(c)
	if err != nil {
		return nil, err
	}
	return e.Engine.(*Local), nil
}
