package sched

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"gpurun/gpu"
)

// maxPreparing bounds the jobs that the edge prepares at once. Jobs that need no
// GPU could otherwise swamp it by the million.
const maxPreparing = 64

// waiter is the first ready job that found no GPU in the last fill.
type waiter struct {
	id    int32         // -1 when there is none
	first int32         // the one whose patience counts; same as id, except in fills that a limit cut short
	since time.Duration // when it became first
	kept  []gpu.UUID    // GPUs that smaller jobs must leave to it
	free  int           // how many of these it could use already
	alone time.Duration // since when it has waited with this run holding no GPU; 0 if the run holds one
}

// shun is a GPU that another run took first.
type shun struct {
	id    gpu.UUID
	until time.Duration
}

// fill starts every ready job that there is room for, in order. The first job of each
// class of equal requests stands for the class.
func (c *Core) fill() {
	if !c.refill || !c.begun {
		return
	}
	c.refill = false
	w := &c.waiter
	w.id, w.kept, w.free, c.cramped.id = -1, nil, 0, -1
	if c.draining != "" || len(c.classes.filled) == 0 {
		return
	}
	c.classes.try = append(c.classes.try[:0], c.classes.filled...)
	order := byRank(c.classes.try[:0])
	for _, cl := range c.classes.try {
		if c.head(cl) >= 0 {
			order = append(order, cl)
		}
	}
	heap.Init(&order)
	c.classes.failed = c.classes.failed[:0]
	aside := c.aside()
	for len(order) > 0 && c.slots() == "" && len(c.preps) < maxPreparing {
		cl := order[0]
		id := c.head(cl)
		started := false
		if c.room(id, cl) == "" {
			started = c.startJob(id, cl, &aside)
		} else if c.cramped.id < 0 {
			c.cramped.wait(id, c.now.Boot)
		}
		if started && c.head(cl) >= 0 {
			heap.Fix(&order, 0)
		} else {
			heap.Pop(&order)
		}
	}
}

// startJob grants a job what it asks for and has it prepared. It returns false if no GPU
// is free for it.
func (c *Core) startJob(id int32, cl *class, aside *[]gpu.UUID) bool {
	if !cl.gpus {
		c.grant(id, cl, gpu.Grant{}, "")
		return true
	}
	if c.gaveUp || c.classes.vain(cl.req) {
		return false
	}
	g, ok := gpu.Grant{}, false
	if avoid := c.avoided(id); len(avoid) > 0 {
		g, ok = c.pool.Find(c.now.Boot, cl.req, slices.Concat(*aside, avoid))
	}
	if !ok {
		g, ok = c.pool.Find(c.now.Boot, cl.req, *aside)
	}
	if ok {
		c.grant(id, cl, g, c.pool.Note(c.now.Boot, cl.req, g))
		return true
	}
	c.classes.failed = append(c.classes.failed, cl.req)
	if c.waiter.id < 0 {
		c.wait(id, cl)
		*aside = append(*aside, c.waiter.kept...)
	}
	return false
}

// vain reports whether something easier has already found no GPU in this fill. That keeps
// a batch cheap in which every job asks for a different amount of memory.
func (cs *classes) vain(req gpu.Request) bool {
	for i := range cs.failed[:min(len(cs.failed), 4)] {
		if req.AtLeast(cs.failed[i]) {
			return true
		}
	}
	return false
}

// wait makes a job the head that waits. Once its patience is over, the GPUs it could use
// are kept for it, as long as they would suffice.
func (c *Core) wait(id int32, cl *class) {
	w := &c.waiter
	w.id = id
	if w.first != id {
		w.first, w.since = id, c.now.Boot
	}
	if c.now.Boot-w.since < c.b.Settings.Patience {
		return
	}
	free, ours := c.pool.Could(c.now.Boot, cl.req, c.aside())
	if len(free)+len(ours) >= cl.req.Min {
		w.kept = append(append(w.kept, free...), ours...)
		w.free = len(free)
	}
}

// grant reserves what a job was given and has the edge prepare its start.
func (c *Core) grant(id int32, cl *class, g gpu.Grant, note string) {
	cl.ranks.pop()
	if c.waiter.first == id {
		c.waiter.first = -1
	}
	a := &attempt{
		job: id, follows: -1, file: c.file(id), n: c.jobs[id].attempt + 1, grant: g, cpus: cl.cpus, memory: cl.memory,
		since: c.now.Boot, start: c.now.Wall, name: c.name(id), key: c.b.Jobs[id].Key.String(),
	}
	c.set(id, preparing)
	c.preps[id] = a
	c.take(a)
	c.do(Prepare{Job: int(id), Attempt: int(a.n), Grant: g, Note: note})
}

// slots returns why no job at all may start now, or "".
func (c *Core) slots() string {
	if most := c.b.Settings.MaxConcurrent; most > 0 && c.live.n >= most {
		noun := "jobs are"
		if c.live.n == 1 {
			noun = "job is"
		}
		return fmt.Sprintf("%d %s running and max_concurrent is %d", c.live.n, noun, most)
	}
	return ""
}

// cramped is the first ready job that found too few cores or too little host memory. Once
// its patience is over, no other job may take any of them.
type cramped struct {
	id, first int32 // as in waiter
	since     time.Duration
}

func (w *cramped) wait(id int32, now time.Duration) {
	w.id = id
	if w.first != id {
		w.first, w.since = id, now
	}
}

func cores(n int) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%d cores", n)
}

// room returns why the limits of this run keep a job of a class from starting now, or "".
func (c *Core) room(id int32, cl *class) string {
	w := &c.cramped
	if (cl.cpus > 0 || cl.memory > 0) && w.id >= 0 && w.id != id && c.now.Boot-w.since >= c.b.Settings.Patience {
		return "cores and host memory are kept for " + c.name(w.id)
	}
	if most := c.opts.CPUs; most > 0 && cl.cpus > 0 && c.cpus+cl.cpus > most {
		return fmt.Sprintf("needs %s, %d of %d are free", cores(cl.cpus), max(0, most-c.cpus), most)
	}
	if most := c.opts.Memory; most > 0 && cl.memory > 0 && c.memory+cl.memory > most {
		return fmt.Sprintf("needs %s of host memory, %s of %s are free", cl.memory.Asked(), max(0, most-c.memory).Round(), most.Round())
	}
	return ""
}

// aside returns the GPUs that no job of this run may take now.
func (c *Core) aside() []gpu.UUID {
	if len(c.excluded) == 0 && len(c.shunned) == 0 {
		return nil
	}
	aside := append([]gpu.UUID(nil), c.excluded...)
	left := c.shunned[:0]
	for _, s := range c.shunned {
		if s.until > c.now.Boot {
			left = append(left, s)
			aside = append(aside, s.id)
		}
	}
	c.shunned = left
	return aside
}

// shun avoids GPUs that another run just took, for a moment that grows with each loss in
// a row, and has them read again after it. The pause depends on the attempt's name, so
// that two runs that collided wait for different times.
func (c *Core) shun(ids []gpu.UUID, name string) {
	pause := min(rivalPause(name)<<min(c.refusals, 10), max(c.b.Settings.Poll, shortPause))
	c.refusals++
	for _, id := range ids {
		c.shunned = append(c.shunned, shun{id, c.now.Boot + pause})
	}
	c.reads.next = min(c.reads.next, c.now.Boot+pause)
}

const shortPause = 50 * time.Millisecond

// rivalPause returns a pause from 5 to 50 ms.
func rivalPause(name string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return time.Duration(5+h.Sum32()%46) * time.Millisecond
}

// byRank is a heap of classes, ordered by their first job.
type byRank []*class

func (h byRank) Len() int           { return len(h) }
func (h byRank) Less(i, k int) bool { return h[i].ranks[0] < h[k].ranks[0] }
func (h byRank) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *byRank) Push(x any)        { *h = append(*h, x.(*class)) }
func (h *byRank) Pop() any {
	s := *h
	x := s[len(s)-1]
	*h = s[:len(s)-1]
	return x
}
