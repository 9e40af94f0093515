package sched

import (
	"math"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// decide moves a job on after one of its attempts ended.
func (c *Core) decide(a *attempt, f state.Fact) {
	id := a.job
	switch f.State {
	case state.Succeeded:
		delete(c.grown, id)
		if r := c.last(id); a.adopted && r != nil && !c.real(r) && c.draining == "" { // succeeded on simulated GPUs
			c.set(id, pending)
			c.consider(id)
			return
		}
		c.end(id, succeeded)
	case state.Cancelled, state.Interrupted:
		// A job that an earlier run stopped, or that had to leave a GPU, runs again.
		// That spends no retry.
		again := f.State == state.Interrupted || a.prior
		switch {
		case again && c.jobs[id].quit:
			c.cancelUnstarted(id)
		case again && c.draining == "":
			c.set(id, pending)
			c.consider(id)
		default:
			c.end(id, phaseOf(f.State))
		}
	default:
		c.failed(id, phaseOf(f.State), f, a.grant.Memory)
	}
}

// failed counts a failed attempt and schedules the next one or ends the job.
func (c *Core) failed(id int32, p phase, f state.Fact, granted gpu.Bytes) {
	j := &c.jobs[id]
	j.failures++
	r := &c.spec(id).Retry
	if c.draining != "" || j.quit || c.isHeld(id) || !retries(r, int(j.failures), f) {
		c.lose(id, p)
		return
	}
	if f.ErrorType == state.ErrOOM && r.MemoryGrowth > 1 {
		c.grow(id, granted)
	}
	c.set(id, waiting)
	c.backoff.push(due{c.now.Boot + pause(r, int(j.failures)), id})
}

// lose ends a job that failed for good. The history already has its last end.
func (c *Core) lose(id int32, p phase) {
	if r := c.last(id); r != nil && c.jobs[id].phase != unselected {
		c.alike.Add(c.name(id), r.Log, r.Failure())
	}
	c.end(id, p)
	c.failFast(id)
}

// retries reports whether a job's n-th failure is followed by another attempt.
func retries(r *jobspec.Retry, n int, f state.Fact) bool {
	// A script that leaves its work in the background would do so again.
	if f.ErrorType == state.ErrLeftRunning {
		return false
	}
	// 126 and 127 mean that the command cannot be executed or does not exist.
	// Retrying would not change that.
	if f.ErrorType == state.ErrExit && f.ExitCode != nil && (*f.ExitCode == 126 || *f.ExitCode == 127) {
		return false
	}
	// A script that pins a GPU would take the same one again.
	if f.ErrorType == state.ErrStray {
		return false
	}
	if r.Max >= 0 && n > r.Max {
		return false
	}
	return len(r.On) == 0 || slices.Contains(r.On, f.ErrorType)
}

// pause returns how long a job waits after its n-th failure.
func pause(r *jobspec.Retry, n int) time.Duration {
	if r.BackoffAfter > 0 && n%r.BackoffAfter == 0 {
		return r.Backoff
	}
	return r.Delay
}

// grow makes the next attempt ask for more memory, up to the largest GPU that the job may
// use.
func (c *Core) grow(id int32, granted gpu.Bytes) {
	req := c.request(id)
	if c.pool == nil || req.Max == 0 {
		return
	}
	now := max(req.Memory, granted)
	want := gpu.Bytes(math.Ceil(float64(now) * c.spec(id).Retry.MemoryGrowth))
	c.grown[id] = max(now, min(want, c.largest(req)))
}

// largest returns the most memory that any GPU could ever give req. The driver keeps part
// of a GPU's memory for itself, so a request for all of it would wait forever.
func (c *Core) largest(req gpu.Request) gpu.Bytes {
	most := gpu.Bytes(0)
	for _, d := range c.pool.Devices() {
		req.Memory = d.Total - d.Total/32
		if _, ok := c.pool.Possible(req); ok {
			most = max(most, req.Memory)
		}
	}
	return most
}

// due is a waiting job and when it may retry (CLOCK_BOOTTIME).
type due struct {
	at time.Duration
	id int32
}

func (d due) before(e due) bool { return d.at < e.at || d.at == e.at && d.id < e.id }

// backoffs is a heap of waiting jobs, earliest first. Entries of jobs that no longer wait
// are dropped when they reach the top.
type backoffs []due

func (b *backoffs) push(d due) {
	s := append(*b, d)
	i := len(s) - 1
	for i > 0 && d.before(s[(i-1)/2]) {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = d
	*b = s
}

func (b *backoffs) pop() {
	s := *b
	last := s[len(s)-1]
	s = s[:len(s)-1]
	*b = s
	i := 0
	for 2*i+1 < len(s) {
		k := 2*i + 1
		if k+1 < len(s) && s[k+1].before(s[k]) {
			k++
		}
		if last.before(s[k]) {
			break
		}
		s[i] = s[k]
		i = k
	}
	if len(s) > 0 {
		s[i] = last
	}
}

// nextRetry returns the job that may retry first.
func (c *Core) nextRetry() (due, bool) {
	for len(c.backoff) > 0 {
		if d := c.backoff[0]; c.jobs[d.id].phase == waiting {
			return d, true
		}
		c.backoff.pop()
	}
	return due{}, false
}

// due lets jobs retry that have waited long enough.
func (c *Core) due() {
	if c.draining != "" {
		return
	}
	for {
		d, ok := c.nextRetry()
		if !ok || d.at > c.now.Boot {
			return
		}
		c.backoff.pop()
		c.set(d.id, pending)
		c.consider(d.id)
	}
}
