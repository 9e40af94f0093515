package torture

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	duration = flag.Duration("torture.time", 12*time.Second, "time for TestTorture; with -torture.traced -1, shared equally with TestKillBetweenSystemCallsLosesNothing")
	seed     = flag.Uint64("torture.seed", 0, "seed of the random choices; 0 derives one from the time, except in TestEightRunnersOfTwoUsers")
	lanes    = flag.Int("torture.lanes", 3, "number of concurrent lanes in TestTorture")
	starts   = flag.Int("torture.starts", 240, "total number of jobs in TestEightRunnersOfTwoUsers")
	traced   = flag.Int("torture.traced", 12, "number of kills between two system calls; -1 covers every system call of a start, as time allows")
)

// gpurun is the program, built once for all tests.
var gpurun string

func TestMain(m *testing.M) {
	if wish, ok := os.LookupEnv(ghostWish); ok {
		haunt(wish)
	}
	flag.Parse()
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "torture-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	gpurun = filepath.Join(dir, "gpurun")
	args := []string{"build", "-o", gpurun}
	if os.Getenv("CGO_ENABLED") != "0" { // as in the Makefile: NVML is resolved at run time
		args = append(args, "-ldflags", "-extldflags=-Wl,-z,lazy")
	}
	cmd := exec.Command("go", append(args, "gpurun")...)
	cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build gpurun: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
