package sched

import (
	"slices"
	"time"

	"gpurun/state"
)

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
