package sched

import (
	"cmp"
	"container/heap"
	"fmt"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// readyJobs holds the jobs that may start, immediately or in turn.
type readyJobs struct {
	ranks    []int32 // by job: its place in the order in which jobs are tried
	classes  []*class
	byNeed   map[need]*class
	queues   []queue
	backoff  []due         // jobs waiting for a retry, the next one first; stale entries are dropped when they are due
	refill   bool          // a change may let some job start
	failed   []gpu.Request // requests that found no GPU in the last fill, starting with the waiter's
	waiter   waiter
	lines    map[string]*firstInLine // by pool, with "" for cores and host memory
	squeezed bool                    // a job lacked cores or host memory that other runs hold
}

// A priorityQueue is a heap: no element is Before the one at index 0.
type priorityQueue[T interface{ Before(T) bool }] []T

func (p priorityQueue[T]) Len() int           { return len(p) }
func (p priorityQueue[T]) Less(i, k int) bool { return p[i].Before(p[k]) }
func (p priorityQueue[T]) Swap(i, k int)      { p[i], p[k] = p[k], p[i] }

func (p *priorityQueue[T]) Push(x any) { *p = append(*p, x.(T)) }

func (p *priorityQueue[T]) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// ranked is a ready job in the queue of its class.
type ranked struct{ rank, id int32 }

// Before reports whether r is tried first.
func (r ranked) Before(s ranked) bool { return r.rank < s.rank }

// compareSize compares the requests of two jobs: total GPU memory, then GPUs, host memory, and
// cores.
func compareSize(a, b *jobspec.Spec) int {
	return cmp.Or(
		cmp.Compare(int64(a.Request.Memory)*int64(a.Request.Min), int64(b.Request.Memory)*int64(b.Request.Min)),
		cmp.Compare(a.Request.Min, b.Request.Min),
		cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.CPUs, b.CPUs),
	)
}

// splitmix is splitmix64: it gives each job a random-looking number, the same in every run
// with the same seed.
func splitmix(seed uint64, id int32) uint64 {
	z := seed + (uint64(id)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// A need is everything that a job must be granted to start.
type need struct {
	req gpu.Request
	gpu.HostResources
	pool jobspec.PoolUse
}

// A class is all ready jobs with the same need. If the first of them does not fit, no other does,
// so a Step looks at classes and never at every waiting job.
type class struct {
	need
	gpus       bool                  // they need devices of the pool
	impossible string                // why they can never start, or ""
	jobs       priorityQueue[ranked] // ready ones; stale entries are dropped when they reach the top
}

// Before compares classes by their first job.
func (cl *class) Before(other *class) bool { return cl.jobs[0].Before(other.jobs[0]) }

// classOf returns the class of a job's current need, creating it if necessary.
func (c *Core) classOf(id int32) *class {
	n := need{c.request(id), gpu.HostResources{CPUs: c.spec(id).CPUs, RAM: c.memory(id)}, c.spec(id).Pool}
	cl := c.byNeed[n]
	if cl == nil {
		cl = &class{need: n, gpus: (n.req.Max > 0 || n.req.Min > 0) && !c.opts.Elsewhere}
		cl.impossible = c.impossible(cl, (*gpu.Pool).EverPossible)
		c.classes = append(c.classes, cl)
		c.byNeed[n] = cl
	}
	return cl
}

// impossible returns why a class can never start here, or "". possible judges whether the pool could
// ever satisfy its request.
func (c *Core) impossible(cl *class, possible func(*gpu.Pool, gpu.Request) (string, bool)) string {
	switch {
	case c.opts.CPUs > 0 && cl.CPUs > c.opts.CPUs:
		return fmt.Sprintf("needs %s, but this run has %d", state.Count(cl.CPUs, "core"), c.opts.CPUs)
	case c.opts.Memory > 0 && cl.RAM > c.opts.Memory:
		return fmt.Sprintf("needs %s of host memory, but this run has %s", cl.RAM.Asked(), c.opts.Memory.Round())
	}
	if most, by := c.maxRequested(); most >= 0 && c.requestedGPUs(cl) > most {
		return fmt.Sprintf("needs %s, but %s is %d", state.Count(c.requestedGPUs(cl), "GPU"), by, most)
	}
	switch {
	case !cl.gpus:
		return ""
	case c.pool == nil:
		return "needs a GPU, but this machine has none"
	}
	why, _ := possible(c.pool, cl.req)
	return why
}

// makeReady adds a job to the ready jobs.
func (c *Core) makeReady(id int32) {
	cl := c.classOf(id)
	c.jobs[id].class = cl
	if cl.impossible != "" {
		c.failUnstarted(id, state.Failed, state.CauseStartFailed, cl.impossible)
		c.failPermanently(id, failed)
		return
	}
	if c.exceedsAllocation(id) != nil {
		c.holdJob(id)
		return
	}
	c.set(id, ready)
	heap.Push(&cl.jobs, ranked{c.ranks[id], id})
	c.refill = true
}

// firstOf returns the first ready job of a class, or -1.
func (p *progress) firstOf(cl *class) int32 {
	for len(cl.jobs) > 0 {
		id := cl.jobs[0].id
		if j := &p.jobs[id]; j.phase == ready && j.class == cl {
			return id
		}
		heap.Pop(&cl.jobs)
	}
	return -1
}

// firstReady returns the first job in order that might start, or -1.
func (c *Core) firstReady() int32 {
	first := int32(-1)
	if c.sealed() || c.finished {
		return first
	}
	for _, cl := range c.classes {
		if id := c.firstOf(cl); id >= 0 && (first < 0 || c.ranks[id] < c.ranks[first]) {
			first = id
		}
	}
	return first
}

// A queue runs its jobs strictly one after another, in the file's order.
type queue struct {
	jobs []int32 // in the file's order
	next int     // index into jobs: all jobs before it have ended or are held
}

// turn reports whether the job's queue lets it run now.
func (c *Core) turn(id int32) bool {
	q := c.b.Jobs[id].Queue
	return q < 0 || c.queueHead(q) == id && c.inQueue(q) == ""
}

// queueHead returns the first job of a queue that has not ended and is not held, or -1.
func (c *Core) queueHead(n int32) int32 {
	q := &c.queues[n]
	for ; q.next < len(q.jobs); q.next++ {
		if p := c.jobs[q.jobs[q.next]].phase; !p.over() && p != unselected && p != held {
			return q.jobs[q.next]
		}
	}
	return -1
}

// inQueue returns the name of a job of a queue that has a live attempt, or "".
func (c *Core) inQueue(q int32) string {
	for _, a := range c.live.all {
		if c.queueOf(a) == q {
			return a.name
		}
	}
	return ""
}

// queueMoves lets a queue's next job proceed; q is -1 for jobs without a queue.
func (c *Core) queueMoves(q int32) {
	if q < 0 {
		return
	}
	if next := c.queueHead(q); next >= 0 {
		c.consider(next)
	}
}

func (c *Core) whyQueue(id int32) *schema.Wait {
	q := c.b.Jobs[id].Queue
	name := c.b.QueueName(q)
	if h := c.queueHead(q); h != id && h >= 0 {
		return waits(schema.WaitQueue, "queue %s: %s goes first", name, c.name(h)).On(c.name(h))
	}
	return waits(schema.WaitQueue, "queue %s: %s is running", name, c.inQueue(q)).On(c.inQueue(q))
}

// room returns why the limits of this run keep a ready job from starting now, or nil.
func (c *Core) room(id int32) *schema.Wait {
	if w := c.full(id); w != nil {
		return w
	}
	return c.space(id)
}

// quota is like space, but checks only this run's own limits. Once a job that lacks cores or host
// memory has run out of patience, no other job may take any.
func (c *Core) quota(id int32) *schema.Wait {
	cl := c.jobs[id].class
	own := c.reserved()
	kept, takes := "cores and host memory are", cl.CPUs > 0 || cl.RAM > 0
	if c.opts.MaxTotal > 0 { // a cluster, which limits neither
		kept, takes = "cluster.max_gpus_total is", c.requestedGPUs(cl) > 0
	}
	if h := c.keptFor("", id); h >= 0 && takes {
		return waits(schema.WaitKept, "%s kept for %s", kept, c.name(h)).On(c.name(h))
	}
	if most := c.opts.CPUs; most > 0 && cl.CPUs > 0 && own.CPUs+cl.CPUs > most {
		return waits(schema.WaitCPUs, "needs %s; %d of %d are free", state.Count(cl.CPUs, "core"), max(0, most-own.CPUs), most)
	}
	if most := c.opts.Memory; most > 0 && cl.RAM > 0 && own.RAM+cl.RAM > most {
		return waits(schema.WaitMemory, "needs %s of host memory; %s of %s is free", cl.RAM.Asked(), max(0, most-own.RAM).Round(), most.Round())
	}
	if most := c.opts.MaxTotal; most > 0 && c.requestedGPUs(cl) > 0 && c.live.asks+c.requestedGPUs(cl) > most {
		return waits(schema.WaitGPUs, "submitted jobs already request %s, and cluster.max_gpus_total is %d", state.Count(c.live.asks, "GPU"), most)
	}
	return nil
}

// requestedGPUs returns how many GPUs a job of a class requests from an engine that chooses the
// GPUs, or 0 for other engines.
func (c *Core) requestedGPUs(cl *class) int {
	if !c.opts.Elsewhere {
		return 0
	}
	return cl.req.Min
}

// maxRequested returns how many GPUs an attempt may request from the engine, -1 for any number, and
// the name of the limiting setting. The engine counts the user's other jobs on the cluster.
func (c *Core) maxRequested() (int, string) {
	most, total := c.b.Settings.MaxGPUs, c.opts.MaxTotal
	if total > 0 && (most < 0 || total < most) {
		return total, "cluster.max_gpus_total"
	}
	return most, "max_gpus"
}

func (c *Core) poolSize(name string) int {
	for _, p := range c.b.Settings.Pools {
		if p.Name == name {
			return p.Size
		}
	}
	return 0
}

// full returns why a job's pool prevents its start now, or nil. Once a job that needs more than the
// pool has left runs out of patience, no other job may take any of the pool.
func (c *Core) full(id int32) *schema.Wait {
	use := c.spec(id).Pool
	if use.N == 0 {
		return nil
	}
	if h := c.keptFor(use.Name, id); h >= 0 {
		return waits(schema.WaitKept, "pool %s is kept for %s", use.Name, c.name(h)).On(c.name(h))
	}
	used := c.live.pools[use.Name]
	for _, m := range c.moves {
		if p := c.spec(m.job).Pool; p.Name == use.Name {
			used += p.N
		}
	}
	if size := c.poolSize(use.Name); used+use.N > size {
		return waits(schema.WaitPool, "needs %d of pool %s; %d of %d are free", use.N, use.Name, max(0, size-used), size)
	}
	return nil
}
