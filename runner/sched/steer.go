package sched

import (
	"cmp"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// steering holds the users' requests to this run. They do not carry over to the next run.
type steering struct {
	paused bool // nothing starts
	pauses int  // how many jobs are paused

	forgotten map[int32]bool // jobs that the user has forgotten: they run in the next run

	rereading bool    // the files are being read: more jobs may join
	limit     Limit   // last limit sent to the engine
	at        []int32 // by job: its place in the files; if nil, the place is the ID
	beside    []Beside
}

// PauseRequested stops all starts, or those of some jobs, until a request with Resume undoes it.
// Running jobs continue.
type PauseRequested struct {
	Jobs   []int
	All    bool
	Resume bool
}

// RetryRequested restarts jobs that failed in this run, and makes pending retries start
// immediately.
type RetryRequested struct{ Jobs []int }

// JobsChanged brings a batch in which some jobs that have not started have new requests, and all
// positions that the user has assigned.
type JobsChanged struct {
	Batch  *jobspec.Batch
	Jobs   []int
	Beside []Beside
}

// A Beside puts jobs right before or after another job of the same priority and queue.
type Beside struct {
	Jobs  []int32 // ascending
	Other int32
	After bool
}

// SettingsChanged brings the batch with new settings, and the resulting rules for GPUs.
type SettingsChanged struct {
	Batch *jobspec.Batch
	Rules gpu.Rules
}

func (ev PauseRequested) on(c *Core) {
	c.refill = true
	if ev.All {
		c.paused = !ev.Resume
	}
	if ev.All && ev.Resume && c.draining == Drained {
		c.draining = ""
	}
	for _, n := range ev.Jobs {
		id, j := int32(n), &c.jobs[n]
		if j.paused == !ev.Resume {
			continue
		}
		if j.paused = !ev.Resume; j.paused {
			c.pauses++
			if j.phase == ready {
				c.set(id, pending)
			}
			continue
		}
		c.pauses--
		c.consider(id)
	}
}

// Paused reports whether the user has paused a job, or with -1, the run.
func (c *Core) Paused(job int) bool {
	if job < 0 {
		return c.paused
	}
	return c.jobs[job].paused
}

// Cancelling reports whether a user has cancelled a job whose attempt has yet to end.
func (c *Core) Cancelling(job int) bool { return c.jobs[job].quit && c.jobs[job].own > 0 }

// Drained is the reason why no more jobs start between gpurun stop --drain and gpurun resume.
const Drained = "stopped by gpurun stop --drain"

// Closing returns why no more jobs start in this run, or "".
func (c *Core) Closing() string { return c.draining }

func (ev RetryRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		c.breaker.forget(c.template(int32(n)))
	}
	for _, n := range ev.Jobs {
		id, j := int32(n), &c.jobs[n]
		switch {
		case j.gone: // no file has the job any more
		case j.phase == waiting:
			c.backoff = slices.DeleteFunc(c.backoff, func(d due) bool { return d.id == id })
			c.set(id, pending)
		case (j.phase.over() && !j.phase.good() && j.phase != blocked || j.phase == pruned) && j.own == 0:
			j.failures, j.quit = 0, false
			c.reopen(id)
		}
	}
	c.rerunAfterNeeds()
	c.recount()
}

// reopen makes an ended job, and the jobs that it blocked, wait to start again.
func (c *Core) reopen(id int32) {
	for open := []int32{id}; len(open) > 0; {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		c.set(id, pending)
		for _, d := range c.graph.needers[id] {
			if p := c.jobs[d].phase; p == blocked || p == pruned && !c.wasPruned(d) {
				open = append(open, d)
			}
		}
	}
}

// recount recomputes the unmet needs of all jobs, and unblocks those that can proceed. cascade must
// have processed all ends.
func (c *Core) recount() {
	c.refill = true
	c.concluding, c.changed = false, false
	for q := range c.queues {
		c.queues[q].next = 0
	}
	if !c.begun {
		return
	}
	for id, j := range c.each {
		if j.unmet, j.bad = c.needed(id); j.phase == ready || j.phase == held {
			c.set(id, pending)
		}
	}
	for id := range c.each { // needs that end here were counted above; cascade subtracts them
		c.consider(id)
	}
}

func (ev JobsChanged) on(c *Core) {
	for _, n := range ev.Jobs {
		if c.spec(int32(n)).Request.Memory != ev.Batch.Jobs[n].Spec.Request.Memory {
			delete(c.grown, int32(n))
		}
	}
	c.b, c.beside = ev.Batch, ev.Beside
	c.endMoves()
	c.fillQueues()
	c.sort()
	c.recount()
}

// Unfit returns why a job with this spec could never start here, or "".
func (c *Core) Unfit(s *jobspec.Spec) string {
	cl := &class{need: need{s.Request, gpu.HostResources{CPUs: s.CPUs, RAM: s.Memory}, s.Pool}}
	cl.gpus = s.Request.Max > 0 && !c.opts.Elsewhere
	return c.impossible(cl, (*gpu.Pool).Possible)
}

// Host returns the host rules as last observed; nil without GPUs.
func (c *Core) Host() *gpu.HostRules {
	if c.pool == nil {
		return nil
	}
	return c.pool.Host()
}

// fillQueues puts the jobs of each queue in order.
func (c *Core) fillQueues() {
	c.queues = make([]queue, len(c.b.Queues))
	for _, id := range c.inOrder() {
		if q := c.b.Jobs[id].Queue; q >= 0 {
			c.queues[q].jobs = append(c.queues[q].jobs, id)
		}
	}
	for q := range c.queues {
		c.placeBeside(c.queues[q].jobs)
	}
}

// placeBeside moves jobs in a list to the positions that the user has assigned.
func (c *Core) placeBeside(ids []int32) {
	for _, m := range c.beside {
		var moved []int32
		rest := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool {
			_, in := slices.BinarySearch(m.Jobs, id)
			in = in && id != m.Other && c.spec(id).Priority == c.spec(m.Other).Priority && c.b.Jobs[id].Queue == c.b.Jobs[m.Other].Queue
			if in {
				moved = append(moved, id)
			}
			return in
		})
		if at := slices.Index(rest, m.Other); at >= 0 {
			if m.After {
				at++
			}
			copy(ids, slices.Insert(rest, at, moved...))
		}
	}
}

func (ev SettingsChanged) on(c *Core) {
	c.b = ev.Batch
	if c.pool != nil {
		c.pool.Rule(ev.Rules)
	}
	c.sort()
}

// sort orders the jobs again, and reclassifies the ready ones.
func (c *Core) sort() {
	c.rank()
	c.classes, c.byNeed = nil, map[need]*class{}
	for _, j := range c.each {
		j.class = nil
	}
	for _, m := range c.moves {
		c.jobs[m.job].class = c.classOf(m.job)
	}
	for id, j := range c.each {
		if j.phase == ready {
			c.makeReady(id)
		}
	}
	c.refill = true
}

// rank orders the jobs: by priority, then by the order setting, then by place in the files.
func (c *Core) rank() {
	before := func(x, y int32) int { return 0 }
	switch c.b.Settings.Order {
	case "shuffle":
		seed := uint64(c.b.Settings.ShuffleSeed)
		before = func(x, y int32) int { return cmp.Compare(splitmix(seed, x), splitmix(seed, y)) }
	case "largest-first":
		before = func(x, y int32) int { return compareSize(c.spec(y), c.spec(x)) }
	case jobspec.LongestFirst:
		before = c.longestFirst()
	}
	order := c.inOrder()
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(c.spec(y).Priority, c.spec(x).Priority), before(x, y), c.byPlace(x, y))
	})
	c.placeBeside(order)
	c.ranks = make([]int32, len(order))
	for rank, id := range order {
		c.ranks[id] = int32(rank)
	}
}

// byPlace compares two jobs by their places in the files.
func (s *steering) byPlace(x, y int32) int {
	if s.at == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(s.at[x], s.at[y]), cmp.Compare(x, y))
}

func (c *Core) whyPaused(id int32) *schema.Wait {
	return waits(schema.WaitPaused, "paused: gpurun resume %s starts it", c.name(id))
}

// firstPaused returns the first job in order that would start if it were not paused, or -1.
func (c *Core) firstPaused() int32 {
	first := int32(-1)
	for id, j := range c.each {
		if j.paused && j.phase == pending && c.barrier(id) == atPause && (first < 0 || c.ranks[id] < c.ranks[first]) {
			first = id
		}
	}
	return first
}

const pausedAll = "the run is paused: gpurun resume continues it"

func (ev StopRequested) on(c *Core) {
	c.refill = true
	switch {
	case ev.All:
		if !c.stopping {
			c.draining = ev.Why // it is more specific than the earlier reason to drain
		}
		c.drain("stopped")
		c.stopping = true
		c.endAll(state.WhyInterrupted, ev.Kill)
	case ev.Drain:
		c.drain(ev.Why)
		c.drain("drained")
		for _, a := range c.live.all {
			if slices.Contains(ev.Jobs, int(a.job)) {
				c.do(End{UniID: a.uniID, Why: state.WhyInterrupted, Unbegun: true})
			}
		}
	case ev.GPU != nil:
		c.vacateGPU(*ev.GPU)
	default:
		c.cancel(ev.Jobs)
	}
}

// drain keeps new jobs from starting; running jobs continue to their end.
func (c *Core) drain(why string) {
	c.failedFast = false
	if c.draining == "" {
		c.draining = why
	}
	c.refill = true
}

func (c *Core) endAll(why string, kill bool) {
	for _, a := range c.live.all {
		c.endAttempt(a, why, kill)
	}
}

// endAttempt records why an attempt is ended, and ends it. An attempt that is still being prepared
// is released once it is prepared.
func (c *Core) endAttempt(a *attempt, why string, kill bool) {
	if a.uniID == "" {
		if a.stop == "" || why == state.WhyCancelled {
			a.stop = why
		}
		return
	}
	// If an earlier run decided to stop the attempt, the signal may never have been sent.
	again := a.stop != "" && a.stop != state.WhyResize && !a.prior
	c.recordStop(a, why)
	if !again || kill {
		c.do(End{UniID: a.uniID, Why: a.stop, Kill: kill})
	}
}

// recordStop records why an attempt is to be ended, before anything is sent to it. The first
// reason stands, unless it is a resize.
func (c *Core) recordStop(a *attempt, why string) {
	if a.stop == "" || a.stop == state.WhyResize && why != a.stop {
		f := a.fact(state.KindStop, c.now)
		f.Why, f.Reason = why, a.cause
		c.record(a.file, a.job, f)
	}
}

// cancel ends these jobs: running ones are stopped, all others end immediately.
func (c *Core) cancel(ids []int) {
	live := false
	for _, id := range ids {
		switch j := &c.jobs[id]; {
		case j.own > 0:
			j.quit, live = true, true
		case j.phase == unselected || j.phase.over():
		default:
			c.cancelUnstarted(int32(id))
		}
	}
	for _, a := range c.live.all {
		if live && a.job >= 0 && c.jobs[a.job].quit {
			c.endAttempt(a, state.WhyCancelled, false)
		}
	}
}

// cancelUnstarted records that the user cancelled a job that is not running.
func (c *Core) cancelUnstarted(id int32) {
	if j := &c.jobs[id]; j.attempt > 0 { // the cancelled attempt is the one after the last
		j.attempt++
	}
	c.failUnstarted(id, state.Cancelled, state.CauseCancelled, byStop)
	c.end(id, cancelled)
}

// vacateGPU ends and requeues the attempts on the GPUs with this index, and excludes these GPUs
// from the run.
func (c *Core) vacateGPU(index int) {
	if c.pool == nil {
		return
	}
	for _, d := range c.pool.Devices() {
		if d.Index == index && !slices.Contains(c.excluded, d.UUID) {
			c.excluded = append(c.excluded, d.UUID)
		}
	}
	for _, a := range c.live.all {
		if slices.Contains(a.grant.Indices, index) {
			c.endAttempt(a, state.WhyGPU, false)
		}
	}
}
