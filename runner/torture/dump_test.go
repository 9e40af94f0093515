package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dump returns where a runner hangs: its output, its goroutines, and the state of every process in
// its place.
func dump(r *runner) string {
	alive := &strings.Builder{}
	for _, p := range marked(r.mark) {
		fmt.Fprintf(alive, "%d %s: %s\n", p.pid, p.argv, waitsIn(p.pid))
		if strings.Contains(p.argv, gpurun+" run ") { // not its tracer, which would intercept the signal
			_ = syscall.Kill(p.pid, syscall.SIGQUIT)
		}
	}
	if !r.wait(5 * time.Second) {
		r.signal(syscall.SIGKILL)
		r.wait(5 * time.Second)
	}
	return r.out.String() + goroutines(r.log) + alive.String()
}

// goroutines returns the stack dump that SIGQUIT wrote to a run.log.
func goroutines(log string) string {
	b, _ := os.ReadFile(log)
	if i := strings.LastIndex(string(b), "SIGQUIT at "); i >= 0 {
		return string(b[i:])
	}
	return ""
}

// waitsIn returns, for every thread of a process, its state and the kernel function in which it
// sleeps.
func waitsIn(pid int) string {
	var threads []string
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range dirs {
		stat, _ := os.ReadFile(dir + "/stat")
		_, after, _ := strings.Cut(string(stat), ") ")
		function, _ := os.ReadFile(dir + "/wchan")
		threads = append(threads, after[:min(1, len(after))]+" "+string(function))
	}
	return strings.Join(threads, ", ")
}

// dump must also work for a traced runner.
func TestDumpShowsWhereARunnerHangs(t *testing.T) {
	t.Parallel()
	for name, under := range map[string][]string{"plain": nil, "traced": {"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=flock"}} {
		t.Run(name, func(t *testing.T) {
			if len(under) > 0 && exec.Command(under[0], append(under[1:], "true")...).Run() != nil {
				t.Skip("no strace")
			}
			l := batch(t, "jobs:\n  - {name: a, gpus: 0, run: \"sleep 1000\"}\n")
			r := l.start(under...)
			until(t, "the job", patience, func() bool {
				return r.over() || slices.ContainsFunc(marked(r.mark), func(p process) bool { return p.argv == "sleep 1000" })
			})
			got := dump(r)
			for _, want := range []string{"start       a", "SIGQUIT at ", "(*loop).wait(", "__keeper", "sleep 1000: "} {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in the dump:\n%s", want, got)
				}
			}
		})
	}
}
