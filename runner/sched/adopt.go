package sched

import (
	"gpurun/state"
)

// on asks the engine about every attempt that the history left open. Nothing starts
// until all have been answered, and what they hold stays reserved.
func (Began) on(c *Core) {
	if !c.judged {
		c.judge()
	}
	open := c.h.Attempts()
	jobs := c.jobsOf(open)
	for _, o := range open {
		a := adopted(o)
		if a.job = jobs[sameKey(o)]; a.job < 0 {
			a.follows = jobs[sameName(o)]
		}
		if a.job >= 0 {
			spec := c.spec(a.job)
			a.grant.Background, a.grant.CPUs, a.grant.RAM = c.b.Settings.Background, spec.CPUs, spec.Memory
			a.pool = spec.Pool
			a.cpus, a.memory, a.grant.Share, a.grant.Slots = spec.CPUs, spec.Memory, spec.Request.Share, spec.Request.Slots
			c.jobs[a.job].attempt = max(c.jobs[a.job].attempt, a.n)
		}
		c.take(a)
		c.lookFor(a)
		c.live.asked++
		c.do(Adopt{Attempt: *o})
	}
	if c.live.asked == 0 {
		c.begin()
	}
}

// adopted returns an open attempt as its start recorded it.
func adopted(o *state.Attempt) *attempt {
	s := &o.Start
	a := &attempt{
		job: -1, file: o.Ledger, uniID: s.UniID, n: int32(s.Attempt),
		grant: s.Grant(),
		name:  s.Job, key: s.Key, log: s.Log, start: s.Time,
		origin:   origin{adopted: true, asked: true, follows: -1, free: int32(s.Free)},
		stopping: stopping{stop: o.Stop, prior: o.Stop != "" && o.Stop != state.WhyTimeout && o.Stop != state.WhyResize},
	}
	if o.Running != nil {
		a.pid = o.Running.PID
	}
	return a
}

// A place is a job's key, or its name, in one file: files may have identical jobs.
type place struct {
	file      int
	key, name string
}

func sameKey(o *state.Attempt) place  { return place{file: o.Ledger, key: o.Start.Key} }
func sameName(o *state.Attempt) place { return place{file: o.Ledger, name: o.Start.Job} }

// keyOf and nameOf are the places of a job.
func (c *Core) keyOf(id int32) place  { return place{file: c.file(id), key: c.b.Jobs[id].Key.String()} }
func (c *Core) nameOf(id int32) place { return place{file: c.file(id), name: c.name(id)} }

// jobsOf returns the first jobs with the keys and names of open attempts; -1 for none.
func (c *Core) jobsOf(open []*state.Attempt) map[place]int32 {
	jobs := map[place]int32{}
	for _, o := range open {
		jobs[sameKey(o)], jobs[sameName(o)] = -1, -1
	}
	for id := int32(len(c.jobs)) - 1; id >= 0 && len(open) > 0; id-- {
		for _, at := range []place{c.keyOf(id), c.nameOf(id)} {
			if _, wanted := jobs[at]; wanted {
				jobs[at] = id
			}
		}
	}
	return jobs
}

// answered notes that the engine has reported on an attempt. What was learned about them
// counts in the verdicts on all jobs.
func (c *Core) answered(a *attempt) {
	if !a.asked {
		return
	}
	a.asked = false
	if c.live.asked--; c.live.asked == 0 && !c.begun {
		c.judge()
		c.begin()
	}
}

// begin lets those jobs proceed that should run.
func (c *Core) begin() {
	c.begun, c.refill = true, true
	c.remember()
	c.ended = c.ended[:0]
	for i := range c.jobs {
		c.place(int32(i))
	}
	for i := range c.jobs {
		c.jobs[i].unmet, c.jobs[i].bad = c.needed(int32(i))
	}
	c.foresee()
	for i := range c.jobs {
		c.consider(int32(i))
	}
}

// freeBefore returns how many attempts of a job spent no retry in the run whose attempt of it
// was adopted.
func (c *Core) freeBefore(id int32) (n int32) {
	for _, a := range c.live.all {
		if a.job == id {
			n = max(n, a.free)
		}
	}
	return n
}

// place puts a job in its phase at the beginning of the run.
func (c *Core) place(id int32) {
	j := &c.jobs[id]
	switch {
	case j.phase == unselected || j.phase.over():
	case j.own > 0:
		j.failures = max(0, j.attempt-1-c.freeBefore(id))
		c.set(id, running)
	case j.quit:
		c.set(id, cancelled)
	case j.fate == hasNothing:
		c.set(id, notNeeded)
	case j.fate == stays:
		c.set(id, upToDate)
	}
	if j.own == 0 {
		j.attempt = 0
	}
}
