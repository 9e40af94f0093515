package sched

import (
	"fmt"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched/prune"
	"gpurun/state"
)

// Pruned jobs have ended: their prune found them behind others that differ in a few parameters. It
// goes by what the ledger has alone, so that the next run decides the same. This is the core's part: it moves jobs, and
// those that need them.
type pruning struct {
	prune.Policy
	silent bool // a warning about a job that reported nothing has been given
}

// Reported is what an attempt has reported since the last time, and how far its log has been read for that.
type Reported struct {
	UniID  string
	Points []state.Point
	To     int64
	Stderr string // the log, if it is that of stderr alone
}

// How often to look at what a job reports, on this host and on a cluster.
const (
	reportEvery    = time.Second
	reportEveryFar = 10 * time.Second
)

// stepShare is how much farther the next step is that is recorded, as a share: a program may report thousands.
const stepShare = 0.01

// ruleOf returns the prune of a job, which has no metric if there is none.
func (c *Core) ruleOf(id int32) jobspec.Prune {
	if id < 0 {
		return jobspec.Prune{}
	}
	return c.spec(id).Prune
}

// reports returns how often to look at what an attempt reports; 0 for never.
func (c *Core) reports(a *attempt) time.Duration {
	switch {
	case c.ruleOf(a.job).Metric == "" || a.uniID == "" || a.asked || a.queued || a.suspended:
		return 0
	case c.opts.Queues:
		return reportEveryFar
	}
	return reportEvery
}

// compete finds out which jobs compete, and what the ledger says that they have reported.
func (c *Core) compete() {
	c.pruning.Clear()
	for i := range c.jobs {
		id := int32(i)
		if c.ruleOf(id).Metric == "" || c.jobs[i].gone {
			continue
		}
		var before state.Curve
		if r := c.last(id); r != nil {
			before = r.Points
			c.jobs[i].whole = c.jobs[i].whole || r.NoPrune && r.State != state.Succeeded
		}
		c.pruning.Join(id, c.b.PruneGroup(i), before)
	}
	for _, a := range c.live.all {
		if o := c.h.Open[a.uniID]; o != nil && c.ruleOf(a.job).Metric != "" {
			c.pruning.Set(a.job, c.pruning.Curve(a.job).Add(o.Points...))
		}
	}
}

// hear records what an attempt has reported. Steps that are hardly farther than the last recorded one wait for others.
func (c *Core) hear(r Reported) {
	a := c.live.byID[r.UniID]
	if a == nil || c.ruleOf(a.job).Metric == "" || len(r.Points) == 0 {
		return
	}
	a.heard = a.heard.Add(r.Points...)
	last, p := c.pruning.Curve(a.job).Last(), a.heard[len(a.heard)-1]
	if a.heard[0].Step > last && p.Step < last*(1+stepShare) && p.Finite() {
		return
	}
	f := a.fact(state.KindPoints, c.now)
	f.Points, f.LogTo, f.Stderr = a.heard, r.To, r.Stderr
	a.heard = nil
	c.record(a.file, a.job, f)
}

// reported returns all that the job of an attempt that is over has reported.
func (c *Core) reported(a *attempt, ev Ended) state.Curve {
	if c.ruleOf(a.job).Metric == "" {
		return nil
	}
	points := c.pruning.Curve(a.job).Add(a.heard...).Add(ev.Points...)
	if len(points) == 0 && !c.pruning.silent && !ev.Lost && ev.Why == "" {
		c.pruning.silent = true
		c.do(Warn{Text: fmt.Sprintf("%s reported no %s in its log, so prune never compared it: see what metrics: says of it", a.name, c.ruleOf(a.job).Metric)})
	}
	return points
}

// prune stops attempts that are behind.
func (c *Core) prune() {
	if c.opts.NoPrune || !c.begun || !c.pruning.Take() {
		return
	}
	for _, a := range c.live.all {
		switch {
		case a.job < 0 || a.uniID == "" || a.queued || a.whole:
		case a.stop == state.WhyPruned && a.prior: // it may not know
			c.endAttempt(a, a.stop, false)
			a.prior = false
		case !a.told || a.stop != "" && a.stop != state.WhyResize:
		default:
			if why := c.pruning.Why(a.job, c.ruleOf(a.job)); why != "" {
				a.cause = why
				c.endAttempt(a, state.WhyPruned, false)
			}
		}
	}
}

// wasPruned reports whether the last end of a job was that it was pruned.
func (c *Core) wasPruned(id int32) bool {
	r := c.last(id)
	return r != nil && r.State == state.Pruned && !r.Forgotten
}

// lacksNeed reports whether a need that is not selected keeps a job from running: it has not succeeded, and is not one of
// several of which some were pruned.
func (c *Core) lacksNeed(id, need int32) bool {
	return !c.succeededBefore(need) && (!c.wasPruned(need) || c.b.NeedsByName(id, need))
}

// missesPruned returns a need that was pruned and without which a job does not run, or -1: one that it needs by name, or
// the first if all were.
func (c *Core) missesPruned(id int32, was func(need int32) bool) int32 {
	needs := c.b.Jobs[id].Needs
	if len(needs) == 0 || c.anyway(id) {
		return -1
	}
	all := true
	for _, n := range needs {
		switch pruned := was(n); {
		case !pruned:
			all = false
		case c.b.NeedsByName(id, n):
			return n
		}
	}
	if all {
		return needs[0]
	}
	return -1
}

// isPruned reports whether a need was pruned in this run, or before it if it is not selected.
func (c *Core) isPruned(need int32) bool {
	p := c.jobs[need].phase
	return p == pruned || p == unselected && c.wasPruned(need)
}
