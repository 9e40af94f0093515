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
	duration = flag.Duration("torture.time", 12*time.Second, "how long TestTorture runs; with -torture.traced -1, half for it and half for TestKillBetweenSystemCallsLosesNothing")
	seed     = flag.Uint64("torture.seed", 0, "seed of the random choices; 0 for the current time")
	lanes    = flag.Int("torture.lanes", 3, "runners at once")
	starts   = flag.Int("torture.starts", 240, "total number of jobs of eight runners of two users")
	traced   = flag.Int("torture.traced", 12, "kills between two system calls; -1 for every system call of a start, as time allows")
)

// gpurun is the program, built once for all tests.
var gpurun string

func TestMain(m *testing.M) {
	if wish := os.Getenv(ghostWish); wish != "" {
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
