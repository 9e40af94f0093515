package sched

import (
	"gpurun/gpu"
	"gpurun/state"
)

// adoptAll asks the engine about every attempt that the history left open. Nothing starts
// until all have been answered, and what they hold stays reserved.
func (c *Core) adoptAll() {
	if c.begun || c.asked > 0 {
		return
	}
	open := c.h.Attempts()
	find := c.finder(open)
	for _, o := range open {
		id, follows := find(o)
		c.adopt(o, id, follows)
	}
	if c.asked == 0 {
		c.begin(len(open) > 0)
	}
}

// adopt adopts one open attempt.
func (c *Core) adopt(o *state.Attempt, id, follows int32) {
	a := adopted(o)
	a.job, a.follows, a.since = id, follows, c.now.Boot
	if id >= 0 {
		spec := c.spec(id)
		a.cpus, a.memory, a.grant.Share = spec.CPUs, spec.Memory, spec.Request.Share
		c.jobs[id].attempt = max(c.jobs[id].attempt, a.n)
	}
	c.take(a)
	c.lookFor(a)
	c.asked++
	c.do(Adopt{Attempt: *o})
}

// adopted returns an open attempt as its start recorded it.
func adopted(o *state.Attempt) *attempt {
	s := &o.Start
	a := &attempt{
		job: -1, follows: -1, file: o.Ledger, uniID: s.UniID, n: int32(s.Attempt),
		grant: gpu.Grant{UUIDs: s.GPUUUIDs, Indices: s.GPUs, Memory: s.Memory},
		name:  s.Job, key: s.Key, log: s.Log, start: s.Time, adopted: true, asked: true,
		stop: o.Stop, prior: o.Stop != "" && o.Stop != state.WhyTimeout,
	}
	if o.Running != nil {
		a.pid = o.Running.PID
	}
	return a
}

// finder returns a function that finds the job an attempt belongs to or, if no job of the
// batch has its key, the job that has its name now.
func (c *Core) finder(open []*state.Attempt) func(*state.Attempt) (id, follows int32) {
	if len(open) == 0 {
		return nil
	}
	byKey, byName := map[string]int32{}, map[string]int32{}
	for _, o := range open {
		byKey[jobKey(o.Ledger, o.Start.Key)] = -1
		byName[jobKey(o.Ledger, o.Start.Job)] = -1
	}
	for i := range c.b.Jobs {
		j := &c.b.Jobs[i]
		if k := jobKey(j.File, j.Key.String()); byKey[k] < 0 {
			byKey[k] = int32(i)
		}
		if k := jobKey(j.File, j.Name); byName[k] < 0 {
			byName[k] = int32(i)
		}
	}
	return func(o *state.Attempt) (int32, int32) {
		if id := byKey[jobKey(o.Ledger, o.Start.Key)]; id >= 0 {
			return id, -1
		}
		return -1, byName[jobKey(o.Ledger, o.Start.Job)]
	}
}

// answered notes that the engine has reported on an attempt.
func (c *Core) answered(a *attempt) {
	if !a.asked {
		return
	}
	a.asked = false
	if c.asked--; c.asked == 0 && !c.begun {
		c.begin(true)
	}
}

// begin judges all jobs and lets those proceed that should run. By now the history
// includes what was learned about adopted attempts.
func (c *Core) begin(learnt bool) {
	c.begun, c.refill = true, true
	if learnt {
		c.judge()
	}
	c.ended = c.ended[:0]
	for i := range c.jobs {
		c.place(int32(i))
	}
	for i := range c.jobs {
		c.countNeeds(int32(i))
	}
	for q := range c.queues {
		c.queues[q].left = 0
		for _, id := range c.queues[q].jobs {
			if p := c.jobs[id].phase; !p.over() && p != unselected {
				c.queues[q].left++
			}
		}
	}
	for i := range c.jobs {
		c.consider(int32(i))
	}
}

// place puts a job in its phase at the beginning of the run.
func (c *Core) place(id int32) {
	j := &c.jobs[id]
	switch {
	case j.phase == unselected || j.phase.over():
	case j.own > 0:
		j.failures = max(0, j.attempt-1)
		c.set(id, running)
	case j.quit:
		c.set(id, cancelled)
	case j.verdict == isUpToDate:
		c.set(id, upToDate)
	case j.verdict == noNeedFailed:
		c.set(id, notNeeded)
	}
	if j.own == 0 {
		j.attempt = 0
	}
}

// countNeeds counts the needs of a job that have not ended.
func (c *Core) countNeeds(id int32) {
	j := &c.jobs[id]
	j.unmet, j.bad = 0, false
	for _, n := range c.b.Jobs[id].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected:
			j.bad = j.bad || !c.succeededBefore(n)
		case !p.over():
			j.unmet++
		default:
			j.bad = j.bad || !p.good()
		}
	}
}
