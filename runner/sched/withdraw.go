package sched

import (
	"slices"

	"gpurun/state"
)

// steerQueue applies this run's decisions to attempts in the cluster's queue: it holds paused ones
// and withdraws those that must not start. An attempt that begins before it is held or withdrawn
// counts as running. The cluster enforces the limits, so that all ready jobs can be queued early.
func (c *Core) steerQueue() {
	if !c.opts.Queues || !c.begun {
		return
	}
	if l := (Limit{max(c.b.Settings.MaxConcurrent, 0), c.b.Settings.MaxGPUs}); l != c.limit {
		c.limit = l
		c.do(l)
	}
	for _, a := range c.live.all {
		if !a.queued || a.stop != "" || a.withdrawn {
			continue
		}
		if a.withdrawn = c.unstartable(a); a.withdrawn {
			c.do(End{UniID: a.uniID, Why: state.WhyInterrupted, Unbegun: true})
		} else if hold := c.paused || a.job >= 0 && c.jobs[a.job].paused; hold != a.onHold {
			a.onHold = hold
			c.do(Hold{UniID: a.uniID, Release: !hold})
		}
	}
}

// unstartable reports whether an attempt that waits in a cluster's queue would not be submitted now.
// An earlier run may have submitted it for a job that has since changed or left the files.
func (c *Core) unstartable(a *attempt) bool {
	if c.sealed() || a.job < 0 {
		return true
	}
	most := c.b.Settings.MaxGPUs
	return c.jobs[a.job].gone || a.n == 1 && c.breaker.holds(c.template(a.job)) != nil || most >= 0 && a.asks > most
}

// allOnHold reports whether all attempts in the cluster's queue are on hold.
func (l *attempts) allOnHold() bool {
	return !slices.ContainsFunc(l.all, func(a *attempt) bool { return a.queued && !a.onHold })
}
