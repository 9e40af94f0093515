package sched

import (
	"slices"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// A held job has not ended: it runs in the next run, or in this one if another job of its group
// succeeds after all. Holding is in the core, not in the breaker, since it affects jobs, their
// queues and the jobs that need them. Jobs that have been tried keep their retries.

// template returns the breaker's key of a job's group.
func (c *Core) template(id int32) uint64 { return c.spec(id).Template }

// watch reports the end of an attempt to the breaker.
func (c *Core) watch(a *attempt, f state.Fact) {
	limit := c.b.Settings.Breaker
	if limit <= 0 || a.job < 0 {
		return
	}
	switch group := c.template(a.job); {
	case f.State == state.Succeeded:
		if c.breaker.succeeded(group) {
			c.recount()
		}
	case a.n == 1 && !a.adopted && telling(f, c.spec(a.job).Retry.MemoryGrowth > 1):
		elsewhere := func(ids []gpu.UUID) bool { return c.opts.Elsewhere || c.canRunElsewhere(a.job, ids) }
		on := a.grant
		switch {
		case c.opts.Elsewhere && a.host != "": // the node counts as the device
			on = gpu.Grant{UUIDs: []gpu.UUID{gpu.UUID(a.host)}}
		case c.opts.Elsewhere:
			on = gpu.Grant{}
		}
		if c.breaker.failed(group, limit, f.Failure(), on, elsewhere) {
			c.hold(group)
		}
	}
}

// isHeld reports whether a job's group is held, and the job has not been tried in this run.
func (c *Core) isHeld(id int32) bool {
	return c.jobs[id].attempt == 0 && c.breaker.holds(c.template(id)) != nil
}

// Held reports whether a job is held because its group is.
func (c *Core) Held(job int) bool { return c.jobs[job].phase == held && c.isHeld(int32(job)) }

// needsHeld reports whether a job needs a held job.
func (c *Core) needsHeld(id int32) bool {
	return c.counts[held] > 0 && slices.ContainsFunc(c.b.Jobs[id].Needs, func(n int32) bool { return c.jobs[n].phase == held })
}

// hold keeps the jobs of a group that have not been tried, and jobs that need them, from starting.
func (c *Core) hold(group uint64) {
	for id, j := range c.each {
		if (j.phase == pending || j.phase == ready) && c.template(id) == group && c.isHeld(id) {
			c.holdJob(id)
		}
	}
	c.refill = true
}

// holdJob holds a job and the jobs that wait for its success. Their queues continue without them.
func (c *Core) holdJob(id int32) {
	open := []int32{id}
	c.set(id, held)
	for len(open) > 0 {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		for _, d := range c.graph.needers[id] {
			if c.jobs[d].phase == pending && !c.anyway(d) {
				c.set(d, held)
				open = append(open, d)
			}
		}
		c.queueMoves(c.b.Jobs[id].Queue)
	}
}

// needsEnded lets a job that was held because of a need proceed once the user has ended that need,
// for example with gpurun done.
func (c *Core) needsEnded(id int32) {
	j := &c.jobs[id]
	if j.phase != held || c.concluding || j.unmet > 0 && !c.blocks(id) || c.isHeld(id) {
		return
	}
	c.set(id, pending)
	if q := c.b.Jobs[id].Queue; q >= 0 {
		c.queues[q].next = 0
	}
}

// whyHeld returns why a job is held.
func (c *Core) whyHeld(id int32) *schema.Wait {
	if c.isHeld(id) {
		s := c.breaker.holds(c.template(id))
		return waits(schema.WaitBreaker, "held: the first attempts of %d similar jobs failed with the same error: %s (gpurun retry %s starts the held jobs)", s.count, s.failure.Cause(), c.name(id))
	}
	if w := c.exceedsAllocation(id); w != nil {
		return w
	}
	for _, n := range c.b.Jobs[id].Needs {
		if c.jobs[n].phase == held {
			return waits(schema.WaitBreaker, "needs %s, which is held", c.name(n)).On(c.name(n))
		}
	}
	switch {
	case c.health.exhausted(id):
		return waits(schema.WaitGPUs, "it died on every GPU available to it; the next run retries it")
	case c.gaveUp:
		return waits(schema.WaitGPUs, "gave up: no GPU became free in time")
	}
	return waits(schema.WaitDraining, "no more jobs start: %s", c.draining)
}

// viewHeld returns the groups that are held.
func (c *Core) viewHeld() []schema.Held {
	list := []schema.Held{}
	if len(c.breaker.held) == 0 {
		return list
	}
	jobs := map[uint64][]int32{}
	for id, j := range c.each {
		if group := c.template(id); j.phase == held {
			jobs[group] = append(jobs[group], id)
		}
	}
	for _, group := range c.breaker.held {
		if ids := jobs[group]; len(ids) > 0 && len(list) < maxHeld {
			s := c.breaker.holds(group)
			list = append(list, schema.Held{
				Jobs: len(ids), First: c.name(ids[0]), Attempts: s.count, Cause: s.failure.Cause(), GPUs: schema.List(slices.Clone(s.gpus)),
			})
		}
	}
	return list
}
