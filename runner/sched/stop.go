package sched

import (
	"slices"
	"time"

	"gpurun/state"
)

// on carries out a user's request to stop.
func (ev StopRequested) on(c *Core) {
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

func (c *Core) endAll(why string, kill bool) {
	for _, a := range c.live.all {
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
	again := a.stop != "" && a.stop != state.WhyResize && !a.prior
	c.recordStop(a, why)
	if !again || kill {
		c.do(End{UniID: a.uniID, Why: a.stop, Kill: kill})
	}
}

// recordStop records why an attempt is to be ended, before anything is sent to it. The
// first reason stands, unless it would start again at once.
func (c *Core) recordStop(a *attempt, why string) {
	if a.stop == "" || a.stop == state.WhyResize && why != a.stop {
		f := a.fact(state.KindStop, c.now)
		f.Why = why
		c.record(a.file, a.job, f)
	}
}

// cancel ends these jobs: running ones are stopped, all others end at once.
func (c *Core) cancel(ids []int) {
	live := false
	for _, id := range ids {
		switch j := &c.jobs[id]; {
		case j.own > 0:
			j.quit, live = true, true
		case j.phase == unselected || j.phase.over():
		default:
			c.cancelUnstarted(int32(id))
		}
	}
	for _, a := range c.live.all {
		if live && a.job >= 0 && c.jobs[a.job].quit {
			c.endAttempt(a, state.WhyCancelled, false)
		}
	}
}

// cancelUnstarted records that the user canceled a job that is not running.
func (c *Core) cancelUnstarted(id int32) {
	c.failUnstarted(id, state.Cancelled, state.CauseCancelled, "")
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
	for _, a := range c.live.all {
		if slices.Contains(a.grant.Indices, index) {
			c.endAttempt(a, state.WhyGPU, false)
		}
	}
}

func (ev ForgetRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		id := int32(n)
		if r := c.last(id); r != nil && !r.Forgotten {
			c.record(c.file(id), id, ForgetFact(c.name(id), c.b.Jobs[id].Key.String(), c.now))
		}
	}
}

func (ev DoneRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		id, j := int32(n), &c.jobs[n]
		if j.own > 0 || j.phase.good() {
			continue
		}
		c.record(c.file(id), id, DoneFact(c.name(id), c.b.Jobs[id].Key.String(), c.now, ev.Without))
		if j.phase != unselected && !j.phase.over() {
			c.refill = true // others may be waiting behind it
			c.end(id, succeeded)
		}
	}
}

// ForgetFact returns the fact that a job's last success no longer counts.
func ForgetFact(job, key string, now Now) state.Fact {
	return state.Fact{Kind: state.KindForget, Time: now.Wall, Job: job, Key: key}
}

// DoneFact returns the fact that a job's work was done outside gpurun. If without is set,
// it counts even though outputs are missing.
func DoneFact(job, key string, now Now, without bool) state.Fact {
	by := state.ByDone
	if without {
		by = state.ByDoneWithout
	}
	return state.Fact{
		Kind: state.KindEnd, Time: now.Wall, Job: job, Key: key,
		State: state.Succeeded, By: by,
	}
}

// A background run stops a job when a foreground wish needs its GPUs, and all of its jobs
// when its hours end. They go back to where they were, and spend no retry.

// attendEvery is how often a background run of which no job waits reads all GPUs, to find
// out about wishes of which it got no notice.
const attendEvery = time.Minute

// giveWay stops what has to go now.
func (c *Core) giveWay() {
	if c.calls = 0; !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	why := c.closed()
	for _, a := range c.live.all {
		if why != "" {
			c.preempt(a, why)
		} else if c.onPool(a) {
			c.preempt(a, c.pool.Closed(c.now.Boot, a.grant.UUIDs))
		}
	}
	if c.pool == nil || !c.pool.Called() {
		return
	}
	going, why, next := c.pool.GiveWay(c.now.Boot)
	c.calls = next
	if k := slices.IndexFunc(c.live.all, func(a *attempt) bool { return a.hold() == going }); k >= 0 {
		c.preempt(c.live.all[k], why)
	}
}

// preempt stops an attempt that has to go, if there is a reason and it is not being
// stopped already.
func (c *Core) preempt(a *attempt, why string) {
	if why == "" || a.stop != "" || a.asked {
		return
	}
	a.cause = why
	c.do(Warn{Text: "stopping " + a.name + ": " + why + "; it runs again later"})
	c.endAttempt(a, state.WhyPreempted, false)
}

// attends reports whether all GPUs are to be read although no job waits for one: what
// others hold keeps a job from starting, or what they wish for decides whether this run's
// jobs may stay.
func (c *Core) attends() bool {
	if c.squeezed {
		return true
	}
	if !c.b.Settings.Background || c.live.onGPUs == 0 {
		return false
	}
	return c.pool.Called() || c.now.Boot >= c.reads.all.at+attendEvery
}

// nextCall calls by with the times at which giveWay may have something to do.
func (c *Core) nextCall(by func(time.Duration)) {
	if !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	by(c.calls)
	if c.live.onGPUs > 0 {
		by(c.reads.all.at + attendEvery)
	}
	if c.b.Settings.Hours.String() != "" || c.pool != nil && len(c.pool.Host().Hours) > 0 {
		by(c.now.Boot + time.Minute - c.now.Wall.Sub(c.now.Wall.Truncate(time.Minute))) // hours end at full minutes
	}
}
