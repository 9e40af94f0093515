package sched

import (
	"cmp"
	"container/heap"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// steering is what people have asked of this run. It ends with the run: the next one goes
// by its files and flags.
type steering struct {
	paused   bool          // nothing starts
	pauses   int           // how many jobs are paused
	priority map[int32]int // that people have given to jobs, instead of the job file's

	rereading bool    // the files are being read: more jobs may join
	at        []int32 // by job: its place in the files; nil for its ID
}

// PauseRequested lets nothing more start, or none of some jobs, until it is taken back.
// Running jobs go on.
type PauseRequested struct {
	Jobs   []int
	All    bool
	Resume bool
}

// RetryRequested lets jobs start again that failed in this run, and at once those that wait
// for a retry.
type RetryRequested struct{ Jobs []int }

// RankRequested gives jobs another priority for this run.
type RankRequested struct {
	Jobs     []int
	Priority int
	First    bool // before all others
	Last     bool // after all others
}

// SettingsChanged brings the batch with other settings, and the rules for GPUs that follow
// from them.
type SettingsChanged struct {
	Batch *jobspec.Batch
	Rules gpu.Rules
}

func (ev PauseRequested) on(c *Core) {
	c.refill = true
	if ev.All {
		c.paused = !ev.Resume
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

// Paused reports whether a job is kept from starting by its user, or with -1, all are.
func (c *Core) Paused(job int) bool {
	if job < 0 {
		return c.paused
	}
	return c.jobs[job].paused
}

// unwanted reports whether a job is not to start although it was to when it was granted its
// GPUs: somebody has paused it, or its files say now that it has something to wait for.
func (c *Core) unwanted(id int32) bool {
	j := &c.jobs[id]
	return j.paused || j.gone || j.unmet > 0
}

// Closing returns why nothing more starts in this run, whatever anybody asks for, or "".
func (c *Core) Closing() string { return c.draining }

func (ev RetryRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		if fam := c.family(int32(n)); fam != nil {
			fam.streaks = nil
			c.letGo(fam)
		}
	}
	c.cascade() // what ends by that is not to be counted twice: see recount
	for _, n := range ev.Jobs {
		id, j := int32(n), &c.jobs[n]
		switch {
		case j.gone: // nobody asks for it any more
		case j.phase == waiting:
			c.backoff = slices.DeleteFunc(c.backoff, func(d due) bool { return d.id == id })
			heap.Init(&c.backoff)
			c.set(id, pending)
		case j.phase.over() && !j.phase.good() && j.phase != blocked && j.own == 0:
			c.unlose(id)
			j.failures, j.quit = 0, false
			c.reopen(id)
		}
	}
	c.recount()
}

// unlose takes back that a job counts among those that failed for good.
func (c *Core) unlose(id int32) {
	p := c.jobs[id].phase
	if r := c.last(id); r != nil && p.over() && !p.good() && p != blocked {
		c.alike.Remove(c.name(id), r.Failure())
	}
}

// reopen has a job that has ended wait for its start again, and with it the jobs that could
// not run because of it.
func (c *Core) reopen(id int32) {
	for open := []int32{id}; len(open) > 0; {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		c.set(id, pending)
		for _, d := range c.graph.needers(id) {
			if c.jobs[d].phase == blocked {
				open = append(open, d)
			}
		}
	}
}

// recount finds out for all jobs what they wait for, and lets those proceed that can. cascade
// must know of all that have ended.
func (c *Core) recount() {
	c.refill, c.breaker.lifted = true, true
	for q := range c.queues {
		c.queues[q].next = 0
	}
	if !c.begun {
		return
	}
	for i := range c.jobs {
		id, j := int32(i), &c.jobs[i]
		if j.unmet, j.bad = c.needed(id); j.phase == ready {
			c.set(id, pending)
		}
	}
	for i := range c.jobs { // what ends here was counted above, and is taken off by cascade
		id := int32(i)
		if c.jobs[i].phase == waiting && c.isHeld(id) { // by its files, it belongs to that family now
			c.loseHeld(id)
		}
		c.consider(id)
	}
}

func (ev RankRequested) on(c *Core) {
	if c.priority == nil {
		c.priority = map[int32]int{}
	}
	low, high := 0, 0
	for i := range c.jobs {
		p := c.priorityOf(int32(i))
		low, high = min(low, p), max(high, p)
	}
	for _, n := range ev.Jobs {
		switch {
		case ev.First:
			c.priority[int32(n)] = high + 1
		case ev.Last:
			c.priority[int32(n)] = low - 1
		default:
			c.priority[int32(n)] = ev.Priority
		}
	}
	c.sort()
}

// priorityOf returns the priority of a job in this run.
func (c *Core) priorityOf(id int32) int {
	if p, ok := c.priority[id]; ok {
		return p
	}
	return c.spec(id).Priority
}

func (ev SettingsChanged) on(c *Core) {
	c.b, c.gauges.jobs = ev.Batch, stalls(ev.Batch)
	if c.pool != nil {
		c.pool.Rule(ev.Rules)
	}
	c.sort()
}

// sort orders the jobs anew, and looks again at what the ready ones ask for.
func (c *Core) sort() {
	c.rank()
	c.classes, c.byNeed = nil, map[need]*class{}
	for i := range c.jobs {
		c.jobs[i].class = nil
	}
	for _, m := range c.moves {
		c.jobs[m.job].class = c.classOf(m.job)
	}
	for i := range c.jobs {
		if id := int32(i); c.jobs[i].phase == ready {
			c.makeReady(id)
		}
	}
	c.refill = true
}

// rank orders the jobs: by priority, then as the order setting says, then as in the files.
func (c *Core) rank() {
	before := within(c.b)
	if c.b.Settings.Order == jobspec.LongestFirst && c.lessons.expected != nil {
		before = func(x, y int32) int { return cmp.Compare(c.takes(y), c.takes(x)) }
	}
	c.ranks = newRanks(c.b, func(x, y int32) int { return cmp.Compare(c.priorityOf(y), c.priorityOf(x)) }, before, c.byPlace)
}

// byPlace compares two jobs by their places in the files.
func (c *Core) byPlace(x, y int32) int {
	if c.at == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Or(cmp.Compare(c.at[x], c.at[y]), cmp.Compare(x, y))
}

// whyPaused says how a job comes to start that its user has paused.
func (c *Core) whyPaused(id int32) *schema.Wait {
	return waits(schema.WaitPaused, "paused: gpurun resume %s lets it start", c.name(id))
}

// pausedAll is why nothing starts in a run that is paused.
const pausedAll = "the run is paused: gpurun resume lets it go on"

// viewSteering is what a snapshot says of steering.
func (c *Core) viewSteering(s *state.Snapshot) {
	s.Paused, s.Aside = c.paused, c.pauses
	s.Watching = c.watching()
}

// on carries out a user's request to stop.
func (ev StopRequested) on(c *Core) {
	c.refill = true
	switch {
	case ev.All:
		if !c.stopping {
			c.draining = ev.Why // it says more than the earlier reason to drain
		}
		c.drain("stopped")
		c.stopping = true
		c.endAll(state.WhyInterrupted, ev.Kill)
	case ev.Drain:
		c.drain(ev.Why)
		c.drain("drained")
	case ev.GPU != nil:
		c.leaveGPU(*ev.GPU)
	default:
		c.cancel(ev.Jobs)
	}
}

// drain keeps new jobs from starting; running jobs continue to their end.
func (c *Core) drain(why string) {
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

// endAttempt records why an attempt is ended and has the engine end it. One still being
// prepared is given back once that is done.
func (c *Core) endAttempt(a *attempt, why string, kill bool) {
	if a.uniID == "" {
		if a.stop == "" || why == state.WhyCancelled {
			a.stop = why
		}
		return
	}
	// If an earlier run stopped it, nobody knows whether the signal was ever sent.
	again := a.stop != "" && a.stop != state.WhyResize && !a.prior
	c.recordStop(a, why)
	if !again || kill {
		c.do(End{UniID: a.uniID, Why: a.stop, Kill: kill})
	}
}

// recordStop records why an attempt is to be ended, before anything is sent to it. The
// first reason stands, unless it would start again at once.
func (c *Core) recordStop(a *attempt, why string) {
	if a.stop == "" || a.stop == state.WhyResize && why != a.stop {
		f := a.fact(state.KindStop, c.now)
		f.Why = why
		c.record(a.file, a.job, f)
	}
}

// cancel ends these jobs: running ones are stopped, all others end at once.
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

// cancelUnstarted records that the user canceled a job that is not running.
func (c *Core) cancelUnstarted(id int32) {
	c.failUnstarted(id, state.Cancelled, state.CauseCancelled, "")
	c.end(id, cancelled)
}

// leaveGPU ends and requeues the attempts on the GPUs with this index, and has the run avoid
// those from now on.
func (c *Core) leaveGPU(index int) {
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

func (ev ForgetRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		id := int32(n)
		if r := c.last(id); r != nil && !r.Forgotten {
			c.record(c.file(id), id, ForgetFact(c.name(id), c.b.Jobs[id].Key.String(), c.now))
		}
	}
}

func (ev DoneRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		id, j := int32(n), &c.jobs[n]
		if j.own > 0 || j.phase.good() {
			continue
		}
		c.record(c.file(id), id, DoneFact(c.name(id), c.b.Jobs[id].Key.String(), c.now, ev.Without))
		if j.phase != unselected && !j.phase.over() {
			c.refill = true // others may be waiting behind it
			c.end(id, succeeded)
		}
	}
}

// ForgetFact returns the fact that a job's last success no longer counts.
func ForgetFact(job, key string, now Now) state.Fact {
	return state.Fact{Kind: state.KindForget, Time: now.Wall, Job: job, Key: key}
}

// DoneFact returns the fact that a job's work was done outside gpurun. If without is set,
// it counts even though outputs are missing.
func DoneFact(job, key string, now Now, without bool) state.Fact {
	by := state.ByDone
	if without {
		by = state.ByDoneWithout
	}
	return state.Fact{
		Kind: state.KindEnd, Time: now.Wall, Job: job, Key: key,
		State: state.Succeeded, By: by,
	}
}
