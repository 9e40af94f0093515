package sched

import "gpurun/jobspec"

// graph is the needs turned round: who needs a job. Both slices are laid out so
// that a batch of a million jobs costs two allocations.
type graph struct {
	first []int32 // by job: where its needers begin in to; one more at the end; nil without any need
	to    []int32
	order []int32 // jobs, each behind its needs; nil when the file's order is one
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

// sort puts every job behind its needs. Jobs on a cycle, which no loaded batch
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

// needers are the jobs that need id.
func (g *graph) needers(id int32) []int32 {
	if g.first == nil {
		return nil
	}
	return g.to[g.first[id]:g.first[id+1]]
}

// end takes a job to its end; cascade tells those who wait for it.
func (c *Core) end(id int32, p phase) {
	if c.jobs[id].phase == unselected {
		return
	}
	c.set(id, p)
	c.ended = append(c.ended, id)
}

// cascade works off the jobs that have ended, and those that end because of it.
// It is a loop, not a recursion: a chain of needs may have a million links.
func (c *Core) cascade() {
	for len(c.ended) > 0 {
		id := c.ended[len(c.ended)-1]
		c.ended = c.ended[:len(c.ended)-1]
		// An interrupted job is neither done nor failed: those who need it stay
		// where they are, and nothing more starts in this run anyway.
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

// consider moves a pending job on: to ready, to blocked, to those that are held, or
// to its end when there is nothing to do for it.
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
