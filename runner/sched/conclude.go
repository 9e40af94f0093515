package sched

import (
	"slices"

	"gpurun/jobspec"
)

// A run concludes by starting the jobs with `when: always` or `failure` whose needs have not all
// ended. They start once no other job can start, because groups are held, fail_fast is set or the
// run gave up waiting. The jobs that cannot start are then held. A run does not conclude after a
// user's stop, or if it leaves jobs to the next run because the surrounding cluster job ends.

// anyway reports whether a job may run without the success of its needs.
func (c *Core) anyway(id int32) bool {
	when := c.spec(id).When
	return when == jobspec.Always || when == jobspec.OnFailure
}

// sealed reports whether no more jobs start.
func (e *ending) sealed() bool { return e.draining != "" && !(e.failedFast && e.concluding) }

// conclude allows the concluding jobs to start once no other job can. It reports whether
// anything has changed.
func (c *Core) conclude() (moved bool) {
	open := c.counts[ready]+c.counts[waiting] > 0
	switch {
	case !c.begun, c.rereading, c.paused, c.pauses > 0, c.outsideHours() != "", len(c.live.all)+len(c.moves) > 0:
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
	c.abandonRetries()
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

// isStuck reports whether a waiting job can no longer start. conclude must already have held those
// of its needs that are stuck.
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
