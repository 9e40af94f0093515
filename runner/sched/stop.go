package sched

import (
	"slices"

	"gpurun/state"
)

// stop does what a person asks for.
func (c *Core) stop(ev Stop) {
	c.refill = true
	switch {
	case ev.All:
		if !c.stopping {
			c.draining = ev.Why // it says more than the reason to drain before
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

// drain has nothing more start; what runs goes on to its end.
func (c *Core) drain(why string) {
	if c.draining == "" {
		c.draining = why
	}
	c.refill = true
}

// failFast stops the run after a job's final failure, where the settings say so.
func (c *Core) failFast(id int32) {
	if !c.b.Settings.FailFast || c.draining != "" {
		return
	}
	c.drain(c.name(id) + " failed, and fail_fast is set")
	c.endAll(state.WhyFailFast, false)
}

func (c *Core) endAll(why string, kill bool) {
	for a := c.live.first; a != nil; a = a.next {
		c.endAttempt(a, why, kill)
	}
}

// endAttempt records why and has the engine end an attempt. One that is still
// being prepared is given back when that is over.
func (c *Core) endAttempt(a *attempt, why string, kill bool) {
	if a.uniID == "" {
		if a.stop == "" || why == state.WhyCancelled {
			a.stop = why
		}
		return
	}
	// Of a stop by an earlier run nobody knows whether its signal was ever sent.
	again := a.stop != "" && !a.prior
	c.recordStop(a, why)
	if !again || kill {
		c.do(End{UniID: a.uniID, Why: a.stop, Kill: kill})
	}
}

// recordStop says why an attempt is to be ended, before anything is sent to it.
// The first reason stays.
func (c *Core) recordStop(a *attempt, why string) {
	if a.stop != "" {
		return
	}
	c.record(a.file, a.job, state.Fact{
		Kind: state.KindStop, Time: c.now.Wall, Job: a.name, Key: a.key, UniID: a.uniID, Attempt: int(a.n), Why: why,
	})
}

// cancel ends these jobs: those that run are stopped, all others are over at once.
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

// cancelUnstarted records that a person has cancelled a job that does not run.
func (c *Core) cancelUnstarted(id int32) {
	c.failUnstarted(id, state.Cancelled, "")
	c.end(id, cancelled)
}

// leave ends and requeues what stands on the GPUs of an index, and has the run
// keep off them from now on.
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
