package torture

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"gpurun/gpu"
)

// What others do who wait for GPUs, and what it costs the run that has them: at most these
// seconds of standing still at a time, and in all, on all GPUs.
var rivals = []struct {
	name    string
	do      func(c *crowd, rival *lane, r *runner)
	longest float64
	sum     float64
}{
	{"stopped", func(_ *crowd, _ *lane, r *runner) { r.signal(syscall.SIGSTOP) }, courtesy, gpuCount * courtesy},
	{"stopped, with its keeper", func(_ *crowd, l *lane, r *runner) {
		for _, pid := range append(keepers(l.mark, l.state), r.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}, courtesy, gpuCount * courtesy},
	{"killed", func(_ *crowd, _ *lane, r *runner) { r.signal(syscall.SIGKILL) }, 0, 0},
	{"toggling files", func(c *crowd, l *lane, r *runner) {
		r.signal(syscall.SIGKILL)
		toggle := exec.Command("sh", "-c", "cd claims/gpurun-64002 && while :; do : >a.claim; : >b.wish; rm a.claim b.wish; done")
		toggle.Dir, toggle.Env = c.dir, []string{c.mark}
		toggle.SysProcAttr = &syscall.SysProcAttr{Credential: l.credential()}
		if err := toggle.Start(); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() {
			_ = toggle.Process.Kill()
			_ = toggle.Wait()
		})
	}, 0, 0},
}

var courtesy = gpu.NoHostRules().Courtesy.Seconds()

// A run that others wait for goes on, whatever becomes of them.
func TestRivals(t *testing.T) {
	for _, tt := range rivals {
		t.Run(tt.name, func(t *testing.T) {
			c := onGPUsOf(t, "simulated")
			slack := 4.0
			if strict() {
				slack = 0.7
			}
			alice, mallory := c.user("alice", 64001, 60, 0.5), c.user("mallory", 64002, 60, 0.5)
			a := alice.start()
			c.started("alice", gpuCount)
			m := mallory.start()
			until(t, "mallory's wish", patience, func() bool {
				wishes, _ := filepath.Glob(filepath.Join(c.dir, "claims/gpurun-64002/*.wish"))
				return len(wishes) > 0
			})
			tt.do(c, mallory, m)
			if !a.wait(patience) {
				t.Fatal(dump(a))
			}
			alice.ended(a, 0)
			ran := alice.check()
			gaps, sum := c.idle(ran), 0.0
			for _, g := range gaps {
				sum += max(0, g-0.1) // what any hand-over takes
			}
			longest := gaps[len(gaps)-1]
			t.Logf("at most %.2f s at a time, %.1f GPU seconds in all", longest, sum)
			if longest > tt.longest+slack || sum > tt.sum+gpuCount*slack {
				t.Errorf("it cost %.2f s at a time, want %.0f at most; %.1f GPU seconds, want %.0f", longest, tt.longest, sum, tt.sum)
			}
			if t.Failed() {
				keep(t, c.place)
			}
			for _, pid := range append(keepers(mallory.mark, mallory.state), m.cmd.Process.Pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			killMarked(c.mark)
		})
	}
}
