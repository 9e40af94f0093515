package sched

import (
	"slices"

	"gpurun/jobspec"
)

// A run concludes with its jobs with `when: always` or `failure` whose needs have not all
// ended: they run once nothing else can start, because groups are held, fail_fast is set
// or the run gave up waiting. What cannot start is held then. After a person's stop they do
// not run, nor if jobs are left since the cluster's job around the run ends: the next run goes on
// with those.

// anyway reports whether a job may run without the success of its needs.
func (c *Core) anyway(id int32) bool {
	when := c.spec(id).When
	return when == jobspec.Always || when == jobspec.OnFailure
}

// sealed reports whether nothing starts any more.
func (c *Core) sealed() bool { return c.draining != "" && !(c.failedFast && c.concluding) }

// conclude lets the jobs start that run anyway, once no other can. It reports whether one
// may.
func (c *Core) conclude() (moved bool) {
	open := c.counts[ready]+c.counts[waiting] > 0
	switch {
	case !c.begun, c.rereading, c.paused, c.pauses > 0, c.closed() != "", len(c.live.all)+len(c.moves) > 0:
		return false
	case c.draining != "" && !c.failedFast, c.draining == "" && !c.gaveUp && c.counts[held] == 0, !c.sealed() && open && !(c.gaveUp && c.onlyGPUs()):
		return false
	case !slices.ContainsFunc(c.graph.order, func(id int32) bool {
		p := c.jobs[id].phase
		return (p == pending || p == ready && c.sealed()) && c.anyway(id)
	}):
		return false
	}
	if c.draining == "" && c.leaves() {
		for _, id := range c.graph.order {
			if c.jobs[id].phase == pending && c.anyway(id) {
				c.holdJob(id)
			}
		}
		return true
	}
	moved = c.sealed()
	c.leaveRetries()
	c.concluding, c.refill = true, true
	for _, id := range c.graph.order {
		j := &c.jobs[id]
		if (j.phase == pending || j.phase == ready) && c.isStuck(id) {
			c.set(id, held)
		}
		j.unmet, j.bad = c.needed(id)
	}
	c.changed = false
	for _, id := range c.graph.order {
		if c.jobs[id].phase == pending {
			c.consider(id)
			moved = moved || c.jobs[id].phase != pending
		}
	}
	return moved
}

// isStuck reports whether a job that waits for its start cannot start any more although
// nothing runs. That of its needs is known.
func (c *Core) isStuck(id int32) bool {
	p := c.jobs[id].phase
	switch {
	case c.anyway(id):
		return p == ready && c.draining == ""
	case p == ready || c.draining != "":
		return true
	}
	unmet, _ := c.needed(id)
	return c.gaveUp && unmet == 0 || c.needsHeld(id)
}
