package sched

import (
	"fmt"
	"slices"

	"gpurun/jobspec"
	"gpurun/runner/sched/prune"
	"gpurun/state"
	"gpurun/state/schema"
)

// A pruned job has ended because it was behind others that differ in a few parameters. Pruning uses
// only what the ledger records, so that the next run decides the same. This file is the core's part
// of pruning: it stops jobs, and decides which other jobs do not run because they need a pruned
// one.
type pruning struct {
	groups map[int32]uint64      // by job: its group; the jobs of a group are compared
	curves map[int32]state.Curve // by job: its reported points, as in the ledger
	fresh  bool                  // something was reported since prune last compared the jobs
	silent bool                  // the warning about a job that reported nothing has been given
}

// ruleOf returns a job's prune rule; if the job has none, the rule has no metric.
func (c *Core) ruleOf(id int32) jobspec.Prune {
	if id < 0 {
		return jobspec.Prune{}
	}
	return c.spec(id).Prune
}

// pointsRule identifies the rule that reads the points of a job; "" if the job has none.
func (c *Core) pointsRule(id int32) string {
	if m := c.b.Jobs[id].PruneMetric(); c.ruleOf(id).Metric != "" && m != nil {
		return m.Rule
	}
	return ""
}

// isCurrent reports whether prune may compare a job's points if the given rule read them. The job
// file may name another metric by now. Facts recorded by earlier versions of gpurun have no rule.
func (c *Core) isCurrent(id int32, rule string) bool { return rule == "" || rule == c.pointsRule(id) }

// initPruning finds the jobs that compete, and reads their reports in the ledger.
func (c *Core) initPruning() {
	c.pruning.groups, c.pruning.curves = map[int32]uint64{}, map[int32]state.Curve{}
	for id, j := range c.each {
		if c.ruleOf(id).Metric == "" || j.gone {
			continue
		}
		c.pruning.groups[id] = c.b.PruneGroup(int(id))
		if r := c.last(id); r != nil && !j.anew && c.isCurrent(id, r.PointsRule) {
			c.report(id, r.Points)
		}
	}
	for _, a := range c.live.all {
		if o := c.h.Open[a.uniID]; o != nil && c.ruleOf(a.job).Metric != "" {
			if o.Start.Anew {
				delete(c.pruning.curves, a.job)
			}
			if c.isCurrent(a.job, o.PointsRule) {
				c.report(a.job, o.Points)
			}
		}
	}
}

// report adds points to a job's curve.
func (c *Core) report(id int32, points []state.Point) {
	c.pruning.curves[id], c.pruning.fresh = c.pruning.curves[id].Add(points...), true
}

// behind returns why the job of an attempt must stop, or "".
func (c *Core) behind(a *attempt) string {
	var others []state.Curve
	for id, curve := range c.pruning.curves {
		if c.pruning.groups[id] == c.pruning.groups[a.job] && id != a.job {
			others = append(others, curve)
		}
	}
	return prune.Why(c.ruleOf(a.job), c.pruning.curves[a.job], others)
}

// recordReports records the points that an attempt has reported, as read by the given rule. Points
// too close to the last recorded step wait for later ones.
func (c *Core) recordReports(a *attempt, points state.Curve, rule string) {
	o := c.h.Open[a.uniID]
	if o == nil || c.ruleOf(a.job).Metric == "" || len(points) == 0 || !c.isCurrent(a.job, rule) {
		return
	}
	known := o.Points
	if !c.isCurrent(a.job, o.PointsRule) {
		known = nil
	}
	a.heard = a.heard.Add(points...)
	if !slices.Equal(known, known.Add(a.heard...)) { // otherwise its log was read again
		if last, p := known.Last(), a.heard[len(a.heard)-1]; a.heard[0].Step > last && p.Step < last*(1+prune.StepShare) && p.Finite() {
			return
		}
		f := a.fact(state.KindPoints, c.now)
		f.Points, f.PointsRule = a.heard, c.pointsRule(a.job)
		c.record(a.file, a.job, f)
	}
	a.heard = nil
}

// heardLast adds the last points of an attempt that has ended.
func (c *Core) heardLast(a *attempt, ev Ended, end state.Phase) {
	metric := c.ruleOf(a.job).Metric
	if metric == "" {
		return
	}
	if c.isCurrent(a.job, ev.Rule) {
		c.report(a.job, a.heard.Add(ev.Points...))
	}
	if len(c.pruning.curves[a.job]) == 0 && !c.pruning.silent && !c.opts.NoPrune && end == state.Succeeded {
		c.pruning.silent = true
		c.do(Warn{Text: fmt.Sprintf("the log of %s has no %s, so prune never compared the job; check its metrics", a.name, metric)})
	}
}

// prune stops attempts that are behind.
func (c *Core) prune() {
	if c.opts.NoPrune || !c.begun || !c.pruning.fresh {
		return
	}
	c.pruning.fresh = false
	for _, a := range c.live.all {
		switch o := c.h.Open[a.uniID]; {
		case a.job < 0 || o == nil || a.queued || o.Start.NoPrune:
		case a.stop == state.WhyPruned && a.prior: // the earlier run may not have signaled it
			c.endAttempt(a, a.stop, false)
			a.prior = false
		case len(o.Points) > 0 && (a.stop == "" || a.stop == state.WhyResize):
			if why := c.behind(a); why != "" {
				a.cause = why
				c.endAttempt(a, state.WhyPruned, false)
			}
		}
	}
}

// wasPruned reports whether a job's last attempt was pruned.
func (c *Core) wasPruned(id int32) bool {
	r := c.last(id)
	return r != nil && r.State == state.Pruned && !r.Forgotten && c.real(r)
}

// anotherTry reports whether a job was pruned and has not succeeded since: if it runs again, the
// user wants it to run to its end.
func (c *Core) anotherTry(id int32) bool {
	r := c.last(id)
	return c.wasPruned(id) || r != nil && r.NoPrune && r.State != state.Succeeded
}

// lacksNeed reports whether an unselected need prevents a job from running: the need has not
// succeeded, and either was not pruned or is needed by name.
func (c *Core) lacksNeed(id, need int32) bool {
	return !c.succeededBefore(need) && (!c.wasPruned(need) || c.b.NeedsByName(id, need))
}

// missesPruned returns a pruned need that prevents a job from running: one that the job needs by
// name, or the first if all its needs were pruned. It returns -1 if there is none.
func (c *Core) missesPruned(id int32, was func(need int32) bool) int32 {
	needs := c.b.Jobs[id].Needs
	all := !slices.ContainsFunc(needs, func(n int32) bool { return !was(n) })
	i := slices.IndexFunc(needs, func(n int32) bool { return was(n) && (all || c.b.NeedsByName(id, n)) })
	if i < 0 || c.anyway(id) {
		return -1
	}
	return needs[i]
}

// isPruned reports whether a need was pruned in this run or before it, or does not run because of
// one that was.
func (c *Core) isPruned(need int32) bool {
	j := &c.jobs[need]
	return j.phase == pruned || j.phase == pending && j.reason.code == schema.PlanPruned || j.phase == unselected && c.wasPruned(need)
}
