package sched

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"gpurun/gpu"
)

// maxPreparing bounds the jobs that the edge makes ready at once; with neither
// GPUs nor a limit in their way a million jobs would be in its hands together.
const maxPreparing = 64

// waiter is the first ready job that found no GPU in the last fill.
type waiter struct {
	id    int32         // -1 when there is none
	first int32         // the one whose patience is counted; the same, but for fills that a limit cut short
	since time.Duration // it has been first since then
	kept  []gpu.UUID    // GPUs that smaller jobs leave alone for it
	free  int           // so many of these let it on already
	until time.Duration // when a GPU may let it on by time alone; 0 for none
	alone time.Duration // since when it waits while this run holds no GPU; 0 when it does
}

// shun is a GPU that another run was quicker to take.
type shun struct {
	id    gpu.UUID
	until time.Duration
}

// fill starts every ready job that there is room for, in order: the first of
// each class of equal requests stands for the class.
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

// startJob grants a job what it asks for and has it prepared; false when there is
// no GPU for it.
func (c *Core) startJob(id int32, cl *class, aside *[]gpu.UUID) bool {
	if !cl.gpus() {
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

// vain says that something easier has found no GPU in this fill already, so that
// a batch in which every job asks for another amount of memory costs no more.
func (cs *classes) vain(req gpu.Request) bool {
	for i := range cs.failed[:min(len(cs.failed), 4)] {
		f := &cs.failed[i]
		if len(f.Models)+len(f.IDs) == 0 && f.Min <= 1 && req.Memory >= f.Memory && req.MaxUtil <= f.MaxUtil &&
			req.Share == f.Share && (req.UtilOnOwn || !f.UtilOnOwn) {
			return true
		}
	}
	return false
}

// wait makes a job the one that waits at the head. When its patience is over the
// GPUs that it could use are kept for it, as long as those would suffice.
func (c *Core) wait(id int32, cl *class) {
	w := &c.waiter
	w.id = id
	if w.first != id {
		w.first, w.since, w.until = id, c.now.Boot, 0
	}
	if c.looked {
		w.until = c.letsOn(cl)
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

// letsOn is when some GPU may let a class on by time alone; 0 for never.
func (c *Core) letsOn(cl *class) time.Duration {
	at := time.Duration(0)
	for _, v := range c.pool.Admit(c.now.Boot, cl.req) {
		if v.Until > c.now.Boot && (at == 0 || v.Until < at) {
			at = v.Until
		}
	}
	return at
}

// grant sets aside what a job was given and has the edge prepare its start.
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

// slots says why no job at all may start now; "" when one may.
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

// cramped is the first ready job that found too few cores or too little host
// memory. When its patience is over no other job takes any of these.
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

// room says why the limits of this run do not let a job of a class start now; ""
// when they do.
func (c *Core) room(id int32, cl *class) string {
	w := &c.cramped
	if (cl.cpus > 0 || cl.memory > 0) && w.id >= 0 && w.id != id && c.now.Boot-w.since >= c.b.Settings.Patience {
		return "cores and host memory are kept for " + c.name(w.id)
	}
	if most := c.opts.CPUs; most > 0 && cl.cpus > 0 && c.cpus+cl.cpus > most {
		return fmt.Sprintf("needs %d cores, %d of %d are free", cl.cpus, max(0, most-c.cpus), most)
	}
	if most := c.opts.Memory; most > 0 && cl.memory > 0 && c.memory+cl.memory > most {
		return fmt.Sprintf("needs %s of host memory, %s of %s are free", cl.memory.Asked(), max(0, most-c.memory).Round(), most.Round())
	}
	return ""
}

// aside are the GPUs that no job of this run takes now.
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

// shun keeps off GPUs that another run has just taken, for a moment that grows
// while it goes on like that, and has them read again by then. Two runs that have
// met wait for different times, by the names of their attempts.
func (c *Core) shun(ids []gpu.UUID, name string) {
	pause := min(rivalPause(name)<<min(c.refusals, 10), max(c.b.Settings.Poll, shortPause))
	c.refusals++
	for _, id := range ids {
		c.shunned = append(c.shunned, shun{id, c.now.Boot + pause})
	}
	c.reads.next = min(c.reads.next, c.now.Boot+pause)
}

const shortPause = 50 * time.Millisecond

// rivalPause is from 5 to 50 ms.
func rivalPause(name string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return time.Duration(5+h.Sum32()%46) * time.Millisecond
}

// byRank is a heap of classes by their first job.
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
