package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/claim"
)

// rivals are what a waiting user may do, and the most that it may cost the run that holds the GPUs,
// in seconds of idle time: the longest gap, and the sum over all GPUs.
var rivals = []struct {
	name    string
	do      func(c *crowd, rival *lane, r *runner)
	longest float64
	sum     float64
}{
	{"stopped", func(_ *crowd, _ *lane, r *runner) { r.signal(syscall.SIGSTOP) }, courtesy, gpuCount * courtesy},
	{"stopped with its keeper", func(_ *crowd, l *lane, r *runner) {
		for _, pid := range append(keepers(l.mark, l.state), r.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}, courtesy, gpuCount * courtesy},
	{"killed", func(_ *crowd, _ *lane, r *runner) { r.signal(syscall.SIGKILL) }, 0, 0},
	{"toggles claim and wish files", func(c *crowd, l *lane, r *runner) {
		r.signal(syscall.SIGKILL)
		toggle := exec.Command("sh", "-c", "while test -d $PWD; do : >a.claim; : >b.wish; rm a.claim b.wish; done")
		toggle.Dir, toggle.Env = l.claims(), []string{c.mark}
		c.beside(toggle, l)
	}, 0, 0},
	{"wishes but takes nothing", haunted(0), courtesy, gpuCount * courtesy},
	{"renews its wish every second", haunted(time.Second), courtesy, gpuCount * courtesy},
	{driverHangs, func(c *crowd, l *lane, _ *runner) {
		l.write(c.t, "hung", fmt.Sprintf("count=%d\nhang=memory2\n", gpuCount))
	}, courtesy, gpuCount * courtesy},
}

// driverHangs needs the stand-in for NVML, because simulated GPUs never hang.
const driverHangs = "its driver hangs"

// haunted replaces a waiting run with a process that only publishes the run's wish, under a new
// name at each interval; 0 for one name.
func haunted(every time.Duration) func(c *crowd, l *lane, r *runner) {
	return func(c *crowd, l *lane, r *runner) {
		wish := ""
		until(c.t, "a wish to imitate", patience, func() bool { wish = l.wish(); return wish != "" })
		r.signal(syscall.SIGKILL)
		ghost := exec.Command("/proc/self/exe")
		ghost.Env = []string{c.mark, ghostWish + "=" + wish, ghostEvery + "=" + every.String(), claim.RootVariable + "=" + filepath.Join(c.dir, "claims")}
		ghost.Stderr = os.Stderr
		c.beside(ghost, l)
	}
}

// beside starts a program as a lane's user and kills it when the test ends. The program must not
// end before that.
func (c *crowd) beside(cmd *exec.Cmd, l *lane) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.credential()}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			c.t.Errorf("%s has ended: %v", cmd, err)
		}
	})
}

// wish returns the wish of a lane's user, or "".
func (l *lane) wish() string {
	wishes, _ := filepath.Glob(filepath.Join(l.claims(), "*.wish"))
	if len(wishes) == 0 {
		return ""
	}
	b, _ := os.ReadFile(wishes[0])
	return string(b)
}

// These environment variables make the test binary publish a wish without a run.
const (
	ghostWish  = "TORTURE_GHOST"
	ghostEvery = "TORTURE_GHOST_EVERY"
)

// haunt publishes a wish without a run, until it is killed.
func haunt(wish string) {
	var c struct{ Wish gpu.Wish }
	every, err := time.ParseDuration(os.Getenv(ghostEvery))
	if err = cmp.Or(err, json.Unmarshal([]byte(wish), &c)); err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		w := claim.NewWisher([]string{claim.Root()})
		c.Wish.Run = fmt.Sprint("ghost-", n)
		if err := w.Publish(c.Wish); err != nil {
			panic(err)
		}
		if every == 0 {
			select {}
		}
		time.Sleep(every)
		w.Close()
	}
}

var courtesy = gpu.NoHostRules().Courtesy.Seconds()

// A run continues at full speed, whatever happens to the runs that wait for its GPUs.
func TestRivalsDoNotSlowARun(t *testing.T) {
	among(t)
	for _, tt := range rivals {
		t.Run(tt.name, func(t *testing.T) {
			kind := "simulated"
			if tt.name == driverHangs {
				kind = "driver"
			}
			c := onGPUsOf(t, kind)
			slack, sumSlack := 4.0, 8.0 // a busy machine starts jobs late; more than courtesy would hide an expired offer
			if strict() {
				slack, sumSlack = 0.7, 0.7
			}
			alice, mallory := c.user("alice", 64001, 60, 0.5), c.user("mallory", 64002, 60, 0.5)
			if kind == "driver" {
				own := *c.place
				own.settings = []string{"NVML_STANDIN=" + c.write(t, "hung", fmt.Sprintf("count=%d\n", gpuCount))}
				mallory.place = &own
			}
			a := alice.start()
			c.started("alice", gpuCount)
			m := mallory.start()
			until(t, "mallory's wish", patience, func() bool { return mallory.wish() != "" })
			tt.do(c, mallory, m)
			if !a.wait(patience) {
				t.Fatal(dump(a))
			}
			alice.ended(a, 0)
			ran := alice.check()
			gaps, sum := c.idle(ran), 0.0
			for _, g := range gaps {
				sum += max(0, g-0.1) // cost of any hand-over
			}
			longest := gaps[len(gaps)-1]
			t.Logf("idle: at most %.2f s per gap, %.1f GPU seconds in total", longest, sum)
			if longest > tt.longest+slack || sum > tt.sum+gpuCount*sumSlack {
				t.Errorf("a GPU was idle for %.2f s, want at most %.0f plus slack; %.1f GPU seconds in total, want %.0f plus slack", longest, tt.longest, sum, tt.sum)
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
