package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A crowd is a set of runs of several users on the same GPUs.
type crowd struct {
	*place
	t     *testing.T
	count counts
}

// onGPUsOf creates a crowd on simulated GPUs, or on the stand-in for NVML.
func onGPUsOf(t *testing.T, kind string) *crowd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run as several users")
	}
	if strict() {
		t.Setenv("TMPDIR", quickest()) // so that a slow disk does not look like idle GPUs
	} else {
		t.Parallel()
	}
	c := &crowd{place: newPlace(t), t: t}
	if kind == "driver" {
		if os.Getenv("CGO_ENABLED") == "0" {
			t.Skip("NVML needs cgo")
		}
		library, _ := c.standIn(t, os.DevNull)
		c.write(t, "standin", fmt.Sprintf("count=%d\n", gpuCount))
		c.gpus = []string{"--nvml", library}
		c.settings = []string{"NVML_STANDIN=" + filepath.Join(c.dir, "standin")}
	}
	c.openTo(t)
	return c
}

// user returns the lane of a separate user, with n jobs of this length.
func (c *crowd) user(name string, uid uint32, n int, length float64) *lane {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{Name: fmt.Sprintf("j%04d", i), Kind: "plain", GPUs: 1, Memory: 10, Plan: "0", Sleep: length}
	}
	l := newLane(c.t, c.place, name, nil, jobs, &c.count)
	l.belongTo(c.t, name, uid)
	return l
}

// end waits for runs to end, and returns their attempts in order.
func (c *crowd) end(ls []*lane, rs []*runner) []*attempt {
	c.t.Helper()
	var attempts [][]*attempt
	for i, l := range ls {
		if !rs[i].wait(3 * patience) {
			c.t.Fatalf("%s did not end:\n%s", l.name, dump(rs[i]))
		}
		l.ended(rs[i], 0)
		attempts = append(attempts, l.check())
	}
	noneLeft(c.t, c.mark)
	all := merge(attempts)
	holds(c.t, all, gpuMemory)
	return all
}

// started waits until a lane has started n jobs.
func (c *crowd) started(name string, n int) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%d jobs of %s", n, name), patience, func() bool {
		seen := 0
		for _, n := range readJournal(c.t, c.journal) {
			if n.lane == name && n.what == "start" {
				seen++
			}
		}
		return seen >= n
	})
}

// idle returns how long GPUs were idle before each start, sorted by length. Until the last start,
// there is always a waiting job.
func (c *crowd) idle(all []*attempt) (gaps []float64) {
	last := map[string]float64{}
	for _, a := range all {
		for _, g := range a.begun.gpus {
			if end, ok := last[g]; ok {
				gaps = append(gaps, a.from()-end-c.still.between(end, a.from()))
			}
			last[g] = max(last[g], a.to())
		}
	}
	slices.Sort(gaps)
	return gaps
}

// worst returns the longest of sorted gaps. Unless strict, it returns the median, because a busy
// machine delays some hand-overs.
func worst(gaps []float64) float64 {
	if strict() {
		return gaps[len(gaps)-1]
	}
	return gaps[len(gaps)/2]
}

// had returns the GPU seconds of a lane between two times. The time since the previous job on the
// GPU belongs to the user who starts next.
func had(all []*attempt, lane string, from, to float64) (sum float64) {
	last := map[string]float64{}
	for _, a := range all {
		for _, g := range a.begun.gpus {
			if end, ok := last[g]; ok && a.begun.lane == lane {
				sum += max(0, min(to, a.to())-max(from, end))
			}
			last[g] = a.to()
		}
	}
	return sum
}

// quickest returns a folder in memory, if there is one.
func quickest() string {
	const shm = "/dev/shm"
	if syscall.Access(shm, 7) == nil {
		return shm
	}
	return os.TempDir()
}

// strict reports whether tests run one at a time, so that times can be judged.
func strict() bool { return *traced < 0 }

// among runs a test in parallel with others, unless strict.
func among(t *testing.T) {
	if !strict() {
		t.Parallel()
	}
}

// When a user with a few jobs comes after another user's thousand jobs, their first job starts as
// soon as any job ends, and no GPU is idle.
func TestLatecomerStartsWhenAJobEnds(t *testing.T) {
	among(t)
	const length = 0.3
	for _, kind := range []string{"simulated", "driver"} {
		t.Run(kind, func(t *testing.T) {
			c := onGPUsOf(t, kind)
			many, few, slack, idle := 60, 8, 5.0, 2.0
			if strict() {
				many, few, slack, idle = 1000, 20, 1, 0.2
			}
			ls := []*lane{c.user("alice", 64001, many, length), c.user("bob", 64002, few, length)}
			rs := []*runner{ls[0].start()}
			c.started("alice", 2*gpuCount)
			came := seconds(time.Now())
			rs = append(rs, ls[1].start())
			all := c.end(ls, rs)
			first := slices.IndexFunc(all, func(a *attempt) bool { return a.begun.lane == "bob" })
			if waited := all[first].from() - came - c.still.between(came, all[first].from()); waited > length+slack {
				t.Errorf("bob's first job started after %.2f s, want at most %.1f s for a job and %.0f s", waited, length, slack)
			} else {
				t.Logf("bob's first job started after %.2f s", waited)
			}
			gaps := c.idle(all)
			t.Logf("idle: median %.0f ms, p99 %.0f ms, max %.0f ms", 1e3*gaps[len(gaps)/2], 1e3*gaps[len(gaps)*99/100], 1e3*gaps[len(gaps)-1])
			if most := worst(gaps); most > idle {
				t.Errorf("a GPU was idle for %.2f s while a job waited for it", most)
			}
			if t.Failed() {
				keep(t, c.place)
			}
		})
	}
}

// Users whose jobs differ in length get the same GPU time.
func TestUsersGetEvenShares(t *testing.T) {
	among(t)
	for _, kind := range []string{"simulated", "driver"} {
		t.Run(kind, func(t *testing.T) {
			c := onGPUsOf(t, kind)
			span, off, idle := 6.0, 0.5, 2.0 // seconds; part of a fair share
			if strict() {
				span, off, idle = 60, 0.1, 0.2
			}
			var ls []*lane
			var rs []*runner
			for i, length := range []float64{0.2, 0.3, 0.5} {
				n := int(span * gpuCount / 3 / length)
				ls = append(ls, c.user(fmt.Sprintf("user%d", i), 64001+uint32(i), n, length))
			}
			for _, l := range ls {
				rs = append(rs, l.start())
			}
			all := c.end(ls, rs)
			from, to := all[0].from(), all[len(all)-1].from()
			for _, l := range ls { // while all three have waiting jobs
				own := slices.DeleteFunc(slices.Clone(all), func(a *attempt) bool { return a.begun.lane != l.name })
				from, to = max(from, own[0].from()), min(to, own[len(own)-1].from())
			}
			for _, l := range ls {
				sum := had(all, l.name, from, to)
				even := gpuCount * (to - from) / 3
				t.Logf("%s: %.1f GPU seconds of %.1f s, %+.1f%% of an even share", l.name, sum, to-from, 100*(sum/even-1))
				if sum < even*(1-off) || sum > even*(1+off) {
					t.Errorf("%s used %.1f GPU seconds, want about %.1f", l.name, sum, even)
				}
			}
			waiting := slices.DeleteFunc(all, func(a *attempt) bool { return a.from() > to })
			gaps := c.idle(waiting)
			t.Logf("idle: median %.0f ms, p99 %.0f ms, max %.0f ms", 1e3*gaps[len(gaps)/2], 1e3*gaps[len(gaps)*99/100], 1e3*gaps[len(gaps)-1])
			if most := worst(gaps); most > idle {
				t.Errorf("a GPU was idle for %.2f s while every user waited for it", most)
			}
			if t.Failed() {
				keep(t, c.place)
			}
		})
	}
}
