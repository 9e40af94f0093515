package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A keeper is stopped at a critical moment of claiming, and later continued or killed. Other runs
// must continue within 3 s, and no GPU may be held twice.
func TestStopWhileClaimingBlocksNoOthers(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("strace", "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("cannot use strace here: %v %s", err, out)
	}
	limit := 3.0
	if *traced >= 0 { // other tests keep the machine busy
		limit = 10
	}
	for _, c := range []struct {
		name, call, below string
		killed            bool
	}{
		{"holding the lock", "flock", "claims", false},
		{"with an incomplete claim", "openat", "claims/gpurun-%d", false},
		{"after publishing", "getdents64", "claims/gpurun-%d", false},
		{"after publishing, then killed", "getdents64", "claims/gpurun-%d", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, count := newPlace(t), &counts{}
			path := filepath.Join(p.dir, c.below)
			if strings.Contains(c.below, "%") {
				path = filepath.Join(p.dir, fmt.Sprintf(c.below, os.Getuid()))
			}
			stopped := newLane(t, p, "stopped", nil, onGPUs(6, 2), count)
			others := newLane(t, p, "others", rand.New(rand.NewPCG(1, 1)), onGPUs(150, 1), count)
			pid, a, resume := stopped.stopAt(c.call, path)
			b := others.start()
			at := seconds(time.Now())
			next := 0.0
			until(t, "another run on a GPU", patience, func() bool {
				for _, n := range readJournal(t, p.journal) {
					if !strict() && n.lane == "others" && n.gpus == nil && n.what == "start" {
						at = n.at // do not judge how soon gpurun itself starts
					}
					if n.lane == "others" && n.what == "start" && n.gpus != nil {
						next = n.at - at
						return true
					}
				}
				return b.over()
			})
			if next == 0 || next-p.still.between(at, at+next) > limit {
				t.Errorf("another run's first job got a GPU %.1f s after the run started (0 for never):\n%s", next, b.out.String())
			}
			t.Logf("%s: another run's first job got a GPU %.2f s after the run started", c.name, next)
			if c.killed {
				stopped.killKeepers([]int{pid})
			}
			resume()
			for _, r := range []*runner{a, b} {
				if !r.wait(patience) {
					t.Fatalf("gpurun did not end:\n%s", dump(r))
				}
			}
			stopped.ended(a, 0)
			others.ended(b, 0)
			holds(t, merge([][]*attempt{stopped.check(), others.check()}), gpuMemory)
			noneLeft(t, p.mark)
			if t.Failed() {
				keep(t, p)
			}
		})
	}
}

// onGPUs returns short jobs that need this many GPUs each, after one that needs none.
func onGPUs(n, gpus int) []job {
	jobs := []job{{Name: "gate", Kind: "plain", Plan: "0"}}
	for i := range n {
		jobs = append(jobs, job{Name: fmt.Sprintf("j%03d", i), Kind: "plain", GPUs: gpus, Memory: 20, Plan: "0", Sleep: 0.01})
	}
	return jobs
}

// stopAt starts a runner and returns when its keeper has stopped in a call on path. resume
// continues the keeper.
func (l *lane) stopAt(call, path string) (pid int, r *runner, resume func()) {
	gate := l.gated()
	r = l.start()
	f, pid := l.atGate(gate)
	trace := filepath.Join(l.dir, l.name, "trace")
	tracer := exec.Command("strace", "-f", "-qq", "-o", trace, "-e", "trace="+call, "-P", path,
		"-e", "inject="+call+":signal=SIGSTOP:when=1", "-p", fmt.Sprint(pid))
	if err := tracer.Start(); err != nil {
		l.t.Fatal(err)
	}
	until(l.t, "the tracer", patience, func() bool { return isTraced(pid) })
	l.open(f)
	until(l.t, "the keeper to stop", patience, func() bool {
		b, _ := os.ReadFile(trace)
		return strings.Contains(string(b), "stopped by SIGSTOP")
	})
	return pid, r, func() { // detach the tracer, which would also stop the next thread
		_ = tracer.Process.Signal(syscall.SIGTERM)
		// A tracer may wait forever if its tracee was killed while stopped.
		hung := time.AfterFunc(patience/10, func() { _ = tracer.Process.Kill() })
		_ = tracer.Wait()
		hung.Stop()
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}
