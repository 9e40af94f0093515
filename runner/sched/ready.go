package sched

import (
	"fmt"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// A class is all ready jobs with the same request. If the first of them finds no room,
// neither does any other, so a Step looks at classes and never at every waiting job.
type class struct {
	req        gpu.Request
	cpus       int
	memory     gpu.Bytes
	gpus       bool    // they need devices of the pool
	impossible string  // why they can never start, or ""
	ranks      minHeap // ranks of ready jobs; stale entries are dropped when they reach the top
	at         int     // in classes.filled, or -1
}

type classKey struct {
	req    gpu.Request
	cpus   int
	memory gpu.Bytes
}

// classes holds all classes and finds a job's class.
type classes struct {
	all    []*class
	bySpec map[*jobspec.Spec]int32
	byNeed map[classKey]int32
	filled []*class      // those with ready jobs, unordered
	try    []*class      // scratch space for fill
	failed []gpu.Request // requests that found no GPU in the current fill
}

func newClasses() classes {
	return classes{bySpec: map[*jobspec.Spec]int32{}, byNeed: map[classKey]int32{}}
}

// classOf returns the class of a job's current request, creating it if necessary.
func (c *Core) classOf(id int32) int32 {
	spec := c.spec(id)
	_, grown := c.grown[id]
	if n, ok := c.classes.bySpec[spec]; ok && !grown {
		return n
	}
	cl := &class{req: c.request(id), cpus: spec.CPUs, memory: spec.Memory, at: -1}
	cl.gpus = (cl.req.Max > 0 || cl.req.Min > 0) && c.opts.Placement == gpu.Here
	key := classKey{cl.req, cl.cpus, cl.memory}
	n, ok := c.classes.byNeed[key]
	if !ok {
		n = int32(len(c.classes.all))
		cl.impossible = c.impossible(cl)
		c.classes.all = append(c.classes.all, cl)
		c.classes.byNeed[key] = n
	}
	if !grown {
		c.classes.bySpec[spec] = n
	}
	return n
}

// impossible returns why a class can never start here, or "".
func (c *Core) impossible(cl *class) string {
	if c.opts.CPUs > 0 && cl.cpus > c.opts.CPUs {
		return fmt.Sprintf("needs %s, this run has %d", cores(cl.cpus), c.opts.CPUs)
	}
	if c.opts.Memory > 0 && cl.memory > c.opts.Memory {
		return fmt.Sprintf("needs %s of host memory, this run has %s", cl.memory.Asked(), c.opts.Memory.Round())
	}
	if !cl.gpus {
		return ""
	}
	if c.pool == nil {
		return "needs a GPU, but there is none"
	}
	why, ok := c.pool.Possible(cl.req)
	if ok {
		return ""
	}
	return why
}

// makeReady adds a job to those that may start.
func (c *Core) makeReady(id int32) {
	n := c.classOf(id)
	c.jobs[id].class = n
	cl := c.classes.all[n]
	if cl.impossible != "" {
		c.failUnstarted(id, state.Failed, cl.impossible)
		c.lose(id, failed)
		return
	}
	c.set(id, ready)
	cl.ranks.push(c.ranks.of(id))
	if cl.at < 0 {
		cl.at = len(c.classes.filled)
		c.classes.filled = append(c.classes.filled, cl)
	}
	c.refill = true
}

// head returns the first ready job of a class. If there is none, it returns -1 and drops
// the class from the filled ones.
func (c *Core) head(cl *class) int32 {
	for len(cl.ranks) > 0 {
		id := c.ranks.job(cl.ranks[0])
		if j := &c.jobs[id]; j.phase == ready && c.classes.all[j.class] == cl {
			return id
		}
		cl.ranks.pop()
	}
	if cl.at >= 0 {
		last := len(c.classes.filled) - 1
		c.classes.filled[cl.at] = c.classes.filled[last]
		c.classes.filled[cl.at].at = cl.at
		c.classes.filled = c.classes.filled[:last]
		cl.at = -1
	}
	return -1
}

// A queue runs its jobs strictly one after another, in the file's order.
type queue struct {
	jobs []int32 // in the file's order
	next int     // all before it have ended or are held
	busy int     // live attempts of its jobs, including adopted ones
	left int     // selected jobs that have not ended
}

func newQueues(b *jobspec.Batch) []queue {
	queues := make([]queue, len(b.Queues))
	for i := range b.Jobs {
		if q := b.Jobs[i].Queue; q >= 0 {
			queues[q].jobs = append(queues[q].jobs, int32(i))
		}
	}
	return queues
}

// turn reports whether the job's queue lets it run now.
func (c *Core) turn(id int32) bool {
	q := c.b.Jobs[id].Queue
	if q < 0 {
		return true
	}
	return c.queues[q].busy == 0 && c.queueHead(&c.queues[q]) == id
}

// queueHead returns the first job of a queue that has neither ended nor is held, or -1.
func (c *Core) queueHead(q *queue) int32 {
	for q.next < len(q.jobs) {
		if p := c.jobs[q.jobs[q.next]].phase; !p.over() && p != unselected && p != held {
			return q.jobs[q.next]
		}
		q.next++
	}
	return -1
}

// queueEnded lets a queue's next job proceed after one has ended.
func (c *Core) queueEnded(id int32) {
	q := c.b.Jobs[id].Queue
	if q < 0 {
		return
	}
	c.queues[q].left--
	c.queueMoves(q)
}

func (c *Core) queueMoves(q int32) {
	if next := c.queueHead(&c.queues[q]); next >= 0 {
		c.consider(next)
	}
}

// occupy counts a live attempt against its job and its queue.
func (c *Core) occupy(id int32, by int) {
	c.jobs[id].own += int16(by)
	if q := c.b.Jobs[id].Queue; q >= 0 {
		c.queues[q].busy += by
	}
}

// minHeap is a heap of ranks.
type minHeap []int32

func (h *minHeap) push(r int32) {
	s := append(*h, r)
	i := len(s) - 1
	for i > 0 && s[(i-1)/4] > r {
		s[i] = s[(i-1)/4]
		i = (i - 1) / 4
	}
	s[i] = r
	*h = s
}

func (h *minHeap) pop() {
	s := *h
	last := s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= len(s) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(s)); k++ {
			if s[k] < s[least] {
				least = k
			}
		}
		if s[least] >= last {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = last
}
