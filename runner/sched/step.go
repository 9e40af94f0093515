package sched

import (
	"gpurun/gpu"
	"gpurun/state"
)

// Step takes one event and returns the actions it calls for.
func (c *Core) Step(now Now, ev Event) []Action {
	c.now, c.out = now, nil
	if c.finished {
		if p, ok := ev.(Prepared); ok {
			c.do(Discard{UniID: p.Start.UniID})
		}
		return c.out
	}
	c.handle(ev)
	c.settle()
	out := c.out
	c.out = nil
	return out
}

// handle processes one event.
func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case Began:
		c.adoptAll()
	case Observed:
		c.observe(ev)
	case Prepared:
		c.prepared(ev)
	case PrepareFailed:
		c.refused(ev)
	case Started:
		c.running(ev)
	case Backgrounded:
		if a := c.live.byID[ev.UniID]; a != nil {
			a.background = ev.What
		}
	case StopAnnounced:
		c.stoppingFor(ev)
	case Ended:
		c.over(ev)
	case Woken:
		c.wakeAt = 0
		c.refill = true
	case StopRequested:
		c.stop(ev)
	case ForgetRequested:
		c.forget(ev.Jobs)
	case DoneRequested:
		c.done(ev)
	case StateFailed:
		c.broken = true
		c.drain("cannot write the ledger: " + ev.Err)
	}
}

// settle does everything that the event made possible: ends that follow from ends, due
// retries, starts, readings, the next Wake, and the end of the run.
func (c *Core) settle() {
	for {
		c.cascade()
		c.due()
		c.fill()
		if len(c.ended) == 0 && !c.unlock() {
			break
		}
	}
	c.giveUp()
	c.yield()
	if c.finish() {
		return
	}
	c.read()
	c.wake()
}

// prepared records the start of an attempt and launches it.
func (c *Core) prepared(ev Prepared) {
	a := c.preps[int32(ev.Job)]
	uni := ev.Start.UniID
	if a == nil || uni == "" || c.live.byID[uni] != nil {
		c.do(Discard{UniID: uni})
		return
	}
	delete(c.preps, a.job)
	if a.stop != "" || c.draining != "" || c.isHeld(a.job) {
		c.do(Discard{UniID: uni})
		c.abandon(a)
		return
	}
	if len(a.grant.UUIDs) > 0 {
		if c.pool.Conflict(a.grant, ev.Claims) != "" {
			c.do(Discard{UniID: uni})
			c.shun(a.grant.UUIDs, uni)
			c.abandon(a)
			return
		}
		c.pool.Rename(a.hold(), uni)
		c.refusals = 0
		c.greet(a)
	}
	a.uniID = uni
	c.live.byID[uni] = a
	c.refill = c.refill || len(c.preps) == maxPreparing-1
	c.jobs[a.job].attempt = a.n
	c.record(a.file, a.job, c.startFact(a, ev.Start))
	c.set(a.job, running)
	c.lookFor(a)
	c.reads.watch.begun(c.now.Boot)
	c.do(Launch{Job: int(a.job), UniID: uni})
}

// startFact adds what the core knows of a start to what the edge knows.
func (c *Core) startFact(a *attempt, f state.Fact) state.Fact {
	f.Kind, f.Time = state.KindStart, c.now.Wall
	f.Job, f.Key, f.Attempt = a.name, a.key, int(a.n)
	f.GPUs, f.GPUUUIDs, f.Memory = a.grant.Indices, a.grant.UUIDs, a.grant.Memory
	var n needsCache
	f.Needs = n.hash(c.b, c.b.Jobs[a.job].Needs)
	return f
}

// abandon returns a grant that led to no start. The reason the attempt was stopped
// decides what happens to its job.
func (c *Core) abandon(a *attempt) {
	c.giveBack(a, false)
	c.set(a.job, pending)
	switch {
	case a.stop == state.WhyCancelled:
		c.cancelUnstarted(a.job)
	default:
		c.consider(a.job)
	}
	c.moveOn(a)
}

// refused handles a failed Prepare. A lost race is not a failure.
func (c *Core) refused(ev PrepareFailed) {
	a := c.preps[int32(ev.Job)]
	if a == nil {
		return
	}
	delete(c.preps, a.job)
	if a.stop != "" || c.draining != "" {
		c.abandon(a)
		return
	}
	if ev.Rival {
		a.outrun = true
		c.shun(a.grant.UUIDs, a.name)
		c.abandon(a)
		return
	}
	c.giveBack(a, false)
	c.jobs[a.job].attempt = a.n
	f := c.failUnstarted(a.job, state.Failed, ev.Reason)
	c.set(a.job, pending)
	c.failed(a.job, failed, f, gpu.Bytes(0))
	c.moveOn(a)
}

// failUnstarted records the end of a job that never started.
func (c *Core) failUnstarted(id int32, p state.Phase, reason string) state.Fact {
	f := state.Fact{
		Kind: state.KindEnd, Time: c.now.Wall, Job: c.name(id), Key: c.b.Jobs[id].Key.String(),
		Attempt: int(c.jobs[id].attempt), State: p, Reason: reason,
	}
	if p == state.Failed {
		f.ErrorType = state.ErrExit
	}
	c.record(c.file(id), id, f)
	return f
}

// running records an attempt's process.
func (c *Core) running(ev Started) {
	a := c.live.byID[ev.UniID]
	if a == nil || a.uniID == "" {
		return
	}
	if a.pid != ev.PID && ev.PID > 0 {
		c.record(a.file, a.job, state.Fact{
			Kind: state.KindRunning, Time: c.now.Wall, Job: a.name, Key: a.key, UniID: a.uniID, Attempt: int(a.n),
			PID: ev.PID, PIDStart: ev.PIDStart,
		})
	}
	c.answered(a)
}

// stoppingFor records why the engine is about to signal an attempt, before it does so.
func (c *Core) stoppingFor(ev StopAnnounced) {
	if a := c.live.byID[ev.UniID]; a != nil {
		c.recordStop(a, ev.Why)
	}
	c.do(Ack{UniID: ev.UniID})
}

// over handles the end of an attempt: it records the fact, releases what the attempt
// held, and moves its job on.
func (c *Core) over(ev Ended) {
	a := c.live.byID[ev.UniID]
	if a == nil {
		return // it has already ended
	}
	f := c.endFact(a, ev)
	c.giveBack(a, ev.Stuck)
	c.record(a.file, a.job, f)
	c.watch(a, f)
	switch {
	case a.job < 0 || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0:
	case ev.Void && c.broken && f.State != state.Interrupted:
		c.set(a.job, pending) // its start could not be recorded, so it never ran
	default:
		c.decide(a, f)
	}
	c.moveOn(a)
	c.answered(a)
}
