package sched

import (
	"cmp"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// usageStats makes the estimates; Core applies them, because it owns the order of jobs, their
// requests and their classes.

// seedGroupName returns a job's seed group as facts record it; "" for none.
func (c *Core) seedGroupName(id int32) string {
	hash := c.usage.group(c.b.Jobs, id)
	if hash == 0 {
		return ""
	}
	return state.SeedGroupName(hash, c.opts.Sim && c.spec(id).Request.Max > 0)
}

// seedGroup returns a job's seed group in the history, or nil.
func (c *Core) seedGroup(id int32) *state.SeedGroup {
	if id < 0 || !c.b.Settings.Learn {
		return nil
	}
	return c.h.SeedGroup(c.file(id), c.seedGroupName(id))
}

// open reports whether a job waits to start in this run.
func (p phase) open() bool { return p == pending || p == ready || p == waiting }

// readEstimates reads the batch's past durations from the history, once.
func (c *Core) readEstimates() {
	if c.usage.recalled || !c.b.Settings.Learn {
		return
	}
	c.usage.recalled = true
	for file := range c.b.Files {
		groups, like := c.h.SeedGroups(file), map[string]*jobspec.Spec{}
		for id := range c.each {
			if len(groups) > 0 && c.file(id) == file {
				like[c.seedGroupName(id)] = c.spec(id)
			}
		}
		for _, g := range groups {
			if s := like[g.Name]; s != nil { // the jobs of other groups have left the file
				c.usage.took(s, g.Seconds...)
			}
		}
	}
}

// longestFirst returns the comparison for order: longest-first. Jobs without an estimate are
// assumed to take the median of the batch.
func (c *Core) longestFirst() func(x, y int32) int {
	usual := cmp.Or(c.usage.usual(), Unknown)
	takes := make([]time.Duration, len(c.jobs))
	for id, j := range c.each {
		if takes[id] = usual; j.phase != unselected {
			median, _ := c.seedGroup(id).Took()
			takes[id] = cmp.Or(median, usual)
		}
	}
	return func(x, y int32) int { return cmp.Compare(takes[y], takes[x]) }
}

// Expected returns a job's estimated duration (0 if unknown), and the number of runs of similar
// jobs that it is based on; without any, the estimate is the median of the batch.
func (c *Core) Expected(id int) (takes time.Duration, runs int) {
	if g := c.seedGroup(int32(id)); g != nil && len(g.Seconds) > 0 {
		median, _ := g.Took()
		return median, len(g.Seconds)
	}
	c.readEstimates()
	return c.usage.usual(), 0
}

// Learned returns the memory reserved on each GPU for a job without gpu_memory, and the number of
// runs of similar jobs that it is based on. Both are 0 if there are too few runs.
func (c *Core) Learned(id int) (memory gpu.Bytes, runs int) {
	s := c.spec(int32(id))
	return setAside(s, c.seedGroup(int32(id)), func() gpu.Bytes { return c.most(s.Request) })
}

// Request returns a job's current request.
func (c *Core) Request(id int) gpu.Request { return c.request(int32(id)) }

// recordEnd records the end of an attempt, and updates the requests of ready jobs in its group.
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
	for id, j := range c.each {
		if j.phase == ready && c.usage.group(c.b.Jobs, id) == hash && c.classOf(id) != j.class {
			c.makeReady(id)
		}
	}
}
