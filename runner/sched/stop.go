package sched

import (
	"slices"

	"gpurun/state"
)

// stop carries out a user's request to stop.
func (c *Core) stop(ev StopRequested) {
	c.refill = true
	switch {
	case ev.All:
		if !c.stopping {
			c.draining = ev.Why // it says more than the earlier reason to drain
		}
		c.drain("stopped")
		c.stopping = true
		c.endAll(state.WhyInterrupted, ev.Kill)
	case ev.Drain:
		c.drain(ev.Why)
		c.drain("drained")
	case ev.GPU != nil:
		c.leave(*ev.GPU)
	default:
		c.cancel(ev.Jobs)
	}
}

// drain keeps new jobs from starting; running jobs continue to their end.
func (c *Core) drain(why string) {
	if c.draining == "" {
		c.draining = why
	}
	c.refill = true
}

// failFast stops the run after a job failed for good, if the settings ask for that.
func (c *Core) failFast(id int32) {
	if !c.b.Settings.FailFast || c.draining != "" {
		return
	}
	c.drain(c.name(id) + " failed and fail_fast is set")
	c.endAll(state.WhyFailFast, false)
}

func (c *Core) endAll(why string, kill bool) {
	for a := c.live.first; a != nil; a = a.next {
		c.endAttempt(a, why, kill)
	}
}

// endAttempt records why an attempt is ended and has the engine end it. One still being
// prepared is given back once that is done.
func (c *Core) endAttempt(a *attempt, why string, kill bool) {
	if a.uniID == "" {
		if a.stop == "" || why == state.WhyCancelled {
			a.stop = why
		}
		return
	}
	// If an earlier run stopped it, nobody knows whether the signal was ever sent.
	again := a.stop != "" && !a.prior
	c.recordStop(a, why)
	if !again || kill {
		c.do(End{UniID: a.uniID, Why: a.stop, Kill: kill})
	}
}

// recordStop records why an attempt is to be ended, before anything is sent to it. The
// first reason stands.
func (c *Core) recordStop(a *attempt, why string) {
	if a.stop != "" {
		return
	}
	c.record(a.file, a.job, state.Fact{
		Kind: state.KindStop, Time: c.now.Wall, Job: a.name, Key: a.key, UniID: a.uniID, Attempt: int(a.n), Why: why,
	})
}

// cancel ends these jobs: running ones are stopped, all others end at once.
func (c *Core) cancel(ids []int) {
	live := false
	for _, id := range ids {
		if id < 0 || id >= len(c.jobs) {
			continue
		}
		j := &c.jobs[id]
		switch {
		case j.own > 0:
			j.quit, live = true, true
		case j.phase == unselected || j.phase.over():
		default:
			c.cancelUnstarted(int32(id))
		}
	}
	if !live {
		return
	}
	for a := c.live.first; a != nil; a = a.next {
		if a.job >= 0 && c.jobs[a.job].quit {
			c.endAttempt(a, state.WhyCancelled, false)
		}
	}
}

// cancelUnstarted records that the user canceled a job that is not running.
func (c *Core) cancelUnstarted(id int32) {
	c.failUnstarted(id, state.Cancelled, "")
	c.end(id, cancelled)
}

// leave ends and requeues the attempts on the GPUs with this index, and has the run avoid
// those from now on.
func (c *Core) leave(index int) {
	if c.pool == nil {
		return
	}
	for _, d := range c.pool.Devices() {
		if d.Index == index && !slices.Contains(c.excluded, d.UUID) {
			c.excluded = append(c.excluded, d.UUID)
		}
	}
	for a := c.live.first; a != nil; a = a.next {
		if slices.Contains(a.grant.Indices, index) {
			c.endAttempt(a, state.WhyGPU, false)
		}
	}
}
