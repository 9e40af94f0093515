package sched

import (
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// What is estimated stays apart from what it changes: the order of jobs, what they ask for, and the
// class in which they wait are Core's.

// seedGroupName returns the seed group of a job as facts have it; "" for none.
func (c *Core) seedGroupName(id int32) string {
	hash := c.usage.group(c.b.Jobs, id)
	if hash == 0 {
		return ""
	}
	return state.SeedGroupName(hash, c.opts.Sim && c.spec(id).Request.Max > 0)
}

// seedGroup returns what the history knows of a job's seed group, or nil.
func (c *Core) seedGroup(id int32) *state.SeedGroup {
	if id < 0 || !c.b.Settings.Learn {
		return nil
	}
	return c.h.SeedGroup(c.file(id), c.seedGroupName(id))
}

// open reports whether a job waits for its start in this run.
func (p phase) open() bool { return p == pending || p == ready || p == waiting }

// recall reads what the history says of the batch, once.
func (c *Core) recall() {
	if c.usage.recalled || !c.b.Settings.Learn {
		return
	}
	c.usage.recalled = true
	for file := range c.b.Files {
		groups, like := c.h.SeedGroups(file), map[string]*jobspec.Spec{}
		for i := 0; len(groups) > 0 && i < len(c.b.Jobs); i++ {
			if id := int32(i); c.file(id) == file {
				like[c.seedGroupName(id)] = c.spec(id)
			}
		}
		for _, g := range groups {
			if s := like[g.Name]; s != nil { // others have left the file
				c.usage.took(s, g.Seconds...)
			}
		}
	}
}

// foresee estimates, when the run begins, how long its jobs take.
func (c *Core) foresee() {
	if c.counts[pending] == 0 {
		return
	}
	c.recall()
	if len(c.usage.seconds) == 0 {
		return
	}
	c.usage.expected = make([]time.Duration, len(c.jobs))
	for i := range c.jobs {
		if c.jobs[i].phase.open() {
			c.expect(int32(i))
		}
	}
	c.rank()
}

// expect counts a job that waits for its start with what its group takes.
func (c *Core) expect(id int32) {
	takes, _ := c.seedGroup(id).Took()
	c.usage.expect(id, takes)
}

// Expected returns what a job is expected to take, and how that is known: from runs of
// jobs like it, else from those of the batch. It is 0 if there is nothing to go by.
func (c *Core) Expected(id int) (takes time.Duration, runs int) {
	if g := c.seedGroup(int32(id)); g != nil && len(g.Seconds) > 0 {
		median, _ := g.Took()
		return median, len(g.Seconds)
	}
	c.recall()
	return c.usage.usual(), 0
}

// Learned returns what is set aside on each GPU for a job that does not say what it
// needs, and how many runs of jobs like it say so; 0 if they do not say either.
func (c *Core) Learned(id int) (memory gpu.Bytes, runs int) {
	s := c.spec(int32(id))
	return setAside(s, c.seedGroup(int32(id)), func() gpu.Bytes {
		if c.pool == nil {
			return 0
		}
		return c.most(s.Request)
	})
}

// Request returns what a job asks for now.
func (c *Core) Request(id int) gpu.Request { return c.request(int32(id)) }

// recordEnd records the end of an attempt, and has the jobs of its group that are ready ask
// for what was learned from it.
func (c *Core) recordEnd(a *attempt, f state.Fact) {
	before, _ := c.seedGroup(a.job).Memory()
	c.record(a.file, a.job, f)
	g := c.seedGroup(a.job)
	if g == nil {
		return
	}
	if f.State == state.Succeeded {
		c.usage.took(c.spec(a.job), float32(f.Seconds))
	}
	if warning := c.usage.hogged(c.spec(a.job), f, a.grant.Indices, g); warning != "" {
		c.do(Warn{Text: warning})
	}
	if now, _ := g.Memory(); now == before {
		return
	}
	hash := c.usage.group(c.b.Jobs, a.job)
	for i := range c.jobs {
		id := int32(i)
		if c.jobs[i].phase == ready && c.usage.group(c.b.Jobs, id) == hash && c.classOf(id) != c.jobs[i].class {
			c.makeReady(id)
		}
	}
}
