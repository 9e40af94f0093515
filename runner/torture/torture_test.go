package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestTorture injects random faults until its time is up. The figures in
// docs/internals/reliability.md come from its output with -v.
func TestTorture(t *testing.T) {
	among(t)
	s, c := someSeed(t), &counts{}
	end := time.Now().Add(budget())
	for round := 0; round == 0 || time.Now().Before(end); round++ {
		t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) { oneRound(t, s+uint64(round), c, end) })
		if t.Failed() {
			t.Logf("to repeat: make torture TORTURE_SEED=%d", s+uint64(round))
			break
		}
	}
	t.Logf("%s", c)
}

// someSeed returns the requested seed, or a random one.
func someSeed(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("seed %d", s)
	return s
}

// budget returns the time for one test: all of it, or half if the random faults share it with a
// full sweep over system calls.
func budget() time.Duration {
	if *traced < 0 {
		return *duration / 2
	}
	return *duration
}

// oneRound runs the batches of all lanes to their end, concurrently and with faults. As root, every
// second round gives each lane a user of its own.
func oneRound(t *testing.T, seed uint64, c *counts, end time.Time) {
	p := newPlace(t)
	users := seed%2 == 1 && os.Getuid() == 0
	ls := make([]*lane, *lanes)
	for i := range ls {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		ls[i] = newLane(t, p, fmt.Sprintf("lane%d", i), rng, someJobs(rng, 25), c)
		if users {
			ls[i].belongTo(t, fmt.Sprintf("user%d", i), 64001+uint32(i))
		}
	}
	attempts := make([][]*attempt, *lanes)
	var all sync.WaitGroup
	var excused atomic.Bool // a keeper was killed, so gpurun cannot find traceless processes
	for i, l := range ls {
		all.Go(func() {
			l.disturb(end)
			l.finish()
			attempts[i] = l.check()
			if len(l.keepers) > 0 {
				excused.Store(true)
			}
		})
	}
	all.Wait()
	if excused.Load() {
		killTraceless(p.mark)
	}
	noneLeft(t, p.mark)
	c.Rounds++
	c.On = max(c.On, holds(t, merge(attempts), gpuMemory))
	if t.Failed() {
		keep(t, p)
	}
}

func merge(lists [][]*attempt) []*attempt {
	all := map[string]*attempt{}
	for _, list := range lists {
		for _, a := range list {
			all[a.begun.lane+a.begun.uniID] = a
		}
	}
	return byTime(all)
}

// keep copies the files of a failed test for inspection.
func keep(t testing.TB, p *place) {
	kept, err := os.MkdirTemp("", "torture-kept-")
	if err == nil {
		err = exec.Command("cp", "-a", p.dir, kept).Run()
	}
	t.Logf("files of the failed test: %s %v", kept, err)
}

// faultsPerRound bounds the number of faults in one batch.
const faultsPerRound = 25

// disturb starts runners and injects faults into them.
func (l *lane) disturb(end time.Time) {
	var r *runner
	for range faultsPerRound {
		if time.Now().After(end) || l.t.Failed() {
			break
		}
		if r == nil || r.over() {
			r = l.start()
		}
		delay := time.Duration(l.rng.IntN(500)) * time.Millisecond
		if l.rng.IntN(4) == 0 {
			delay = time.Duration(l.rng.IntN(80_000)) * time.Microsecond
		}
		choice := l.rng.IntN(25)
		if !r.wait(delay) {
			l.fault(r, choice)
		}
		if r.over() && r.code() >= 0 && !r.beaten {
			l.ended(r, append([]int{0, 1, 143}, r.touched...)...)
			if r.code() == 0 {
				return
			}
		}
	}
	if r != nil && !r.over() {
		r.signal(syscall.SIGKILL)
		r.wait(patience)
		l.count.add(&l.count.KillRunner)
	}
}

// fault injects a fault into a live runner.
func (l *lane) fault(r *runner, choice int) {
	c := l.count
	switch {
	case choice < 9:
		r.signal(syscall.SIGKILL)
		r.wait(patience)
		c.add(&c.KillRunner)
	case choice < 11:
		if l.killKeepers(keepers(l.mark, l.state)) {
			c.add(&c.KillKeeper)
		}
	case choice < 13:
		pids := keepers(l.mark, l.state)
		r.signal(syscall.SIGKILL)
		if l.killKeepers(pids) {
			c.add(&c.KillBoth)
		}
		r.wait(patience)
	case choice < 14:
		r.signal(syscall.SIGTERM)
		c.add(&c.Term)
		if !r.wait(patience) {
			l.t.Errorf("%s: gpurun did not end on SIGTERM:\n%s", l.name, dump(r))
		}
	case choice < 16:
		l.pause(r, keepers(l.mark, l.state))
	case choice < 18:
		l.rival(r)
	case choice < 20:
		l.touch(r)
	case choice < 21:
		l.stopKeepers(r)
	case choice < 23:
		r.signal(syscall.SIGKILL)
		r.wait(patience)
		c.add(&c.KillRunner)
		l.stall()
	default: // SIGTERM, then SIGKILL before the runner can write
		r.signal(syscall.SIGTERM)
		c.add(&c.Term)
		r.wait(time.Duration(l.rng.IntN(20)) * time.Millisecond)
		r.signal(syscall.SIGKILL)
		r.wait(patience)
		c.add(&c.KillRunner)
	}
}

// pause stops the runner or its keepers briefly, and may kill the runner while it is stopped.
func (l *lane) pause(r *runner, keepers []int) {
	l.count.add(&l.count.Pause)
	stopped := keepers
	if l.rng.IntN(2) == 0 || len(keepers) == 0 {
		stopped = []int{r.cmd.Process.Pid}
	}
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	dies := l.rng.IntN(3) == 0
	r.wait(time.Duration(l.rng.IntN(300)) * time.Millisecond)
	if dies {
		r.signal(syscall.SIGKILL)
		r.wait(patience)
		l.count.add(&l.count.KillRunner)
	}
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// exitWithin is how long a runner may take to exit after closing its state.
const exitWithin = 10 * time.Second

// rival starts a second runner on the same file. While the first is running, one of the two must
// exit with status 4.
func (l *lane) rival(r *runner) {
	l.count.add(&l.count.Rivals)
	b := l.start()
	for left := allow(patience); !b.over() && !r.over() && !left.over(time.Now()); {
		b.wait(10 * time.Millisecond)
	}
	switch {
	case b.over() && b.code() == 4:
	case r.over() && r.code() == 4: // the second got the lock first
		b.wait(patience)
		l.ended(b, 0, 1)
		r.beaten = true
	case r.over(): // the first ended meanwhile, so the second may have run or not
		b.wait(patience)
		l.ended(b, 0, 1, 4)
	default: // the first had released the file and only had to exit
		l.ended(b, 0, 1)
		if !r.wait(exitWithin) {
			l.t.Errorf("%s: the second gpurun on the file ended with %d while the first was running:\n%s", l.name, b.code(), b.out.String())
		}
	}
}
