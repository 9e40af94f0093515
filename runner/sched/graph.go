package sched

import "gpurun/jobspec"

// graph maps each job to the jobs that need it. Both slices are laid out so that a batch
// of a million jobs costs two allocations.
type graph struct {
	first []int32 // by job: where its needers begin in to, plus one entry at the end; nil if no job has needs
	to    []int32
	order []int32 // jobs, each after its needs; nil if the file's order is such an order
}

func newGraph(b *jobspec.Batch) graph {
	edges, sorted := 0, true
	for i := range b.Jobs {
		needs := b.Jobs[i].Needs
		edges += len(needs)
		if len(needs) > 0 && int(needs[len(needs)-1]) >= i {
			sorted = false
		}
	}
	if edges == 0 {
		return graph{}
	}
	g := graph{first: make([]int32, len(b.Jobs)+1), to: make([]int32, edges)}
	for i := range b.Jobs {
		for _, n := range b.Jobs[i].Needs {
			g.first[n+1]++
		}
	}
	for i := range b.Jobs {
		g.first[i+1] += g.first[i]
	}
	at := append([]int32(nil), g.first[:len(b.Jobs)]...)
	for i := range b.Jobs {
		for _, n := range b.Jobs[i].Needs {
			g.to[at[n]] = int32(i)
			at[n]++
		}
	}
	if !sorted {
		g.order = g.sort(b)
	}
	return g
}

// sort returns the jobs, each after its needs. Jobs on a cycle, which no loaded batch
// has, are left out.
func (g *graph) sort(b *jobspec.Batch) []int32 {
	left := make([]int32, len(b.Jobs))
	order := make([]int32, 0, len(b.Jobs))
	for i := range b.Jobs {
		left[i] = int32(len(b.Jobs[i].Needs))
		if left[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for i := 0; i < len(order); i++ {
		for _, d := range g.needers(order[i]) {
			if left[d]--; left[d] == 0 {
				order = append(order, d)
			}
		}
	}
	return order
}

// needers returns the jobs that need id.
func (g *graph) needers(id int32) []int32 {
	if g.first == nil {
		return nil
	}
	return g.to[g.first[id]:g.first[id+1]]
}

// end moves a job to its final phase; cascade updates the jobs that wait for it.
func (c *Core) end(id int32, p phase) {
	if c.jobs[id].phase == unselected {
		return
	}
	c.set(id, p)
	c.ended = append(c.ended, id)
}

// cascade processes the jobs that have ended and those that end as a result. It is a loop
// rather than a recursion because a chain of needs may have a million links.
func (c *Core) cascade() {
	for len(c.ended) > 0 {
		id := c.ended[len(c.ended)-1]
		c.ended = c.ended[:len(c.ended)-1]
		// An interrupted job is neither done nor failed. Its needers stay where
		// they are; no more jobs start in this run anyway.
		if p := c.jobs[id].phase; p != interrupted {
			for _, d := range c.graph.needers(id) {
				c.jobs[d].unmet--
				c.jobs[d].bad = c.jobs[d].bad || !p.good()
				c.needsEnded(d)
				c.consider(d)
			}
		}
		c.queueEnded(id)
	}
}

// consider moves a pending job on: to ready, blocked or held, or to its end if it has
// nothing to do.
func (c *Core) consider(id int32) {
	j := &c.jobs[id]
	if j.phase != pending || !c.begun {
		return
	}
	when := c.spec(id).When
	switch {
	case when != jobspec.OnFailure && when != jobspec.Always && j.bad:
		c.end(id, blocked)
	case c.isHeld(id):
		c.holdJob(id)
	case j.unmet > 0 || j.held > 0 || j.own > 0:
	case when == jobspec.OnFailure && !j.bad:
		c.end(id, notNeeded)
	case c.turn(id):
		c.makeReady(id)
	}
}
