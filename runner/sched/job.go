package sched

import (
	"fmt"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// phase is a state.Phase in one byte, plus the steps that only the core distinguishes.
type phase uint8

const (
	unselected  phase = iota
	pending           // waiting for its needs, its queue, an earlier attempt, …: see barrier
	ready             // in the heap of its class
	preparing         // resources granted; the edge is preparing its start
	running           //
	waiting           // for its retry delay
	held              // by the breaker, or the run concludes without it
	succeeded         // this and all below are final in this run
	failed            //
	timedOut          //
	outOfMemory       //
	stalled           //
	pruned            // or not started, since it needs a pruned job
	cancelled         //
	interrupted       //
	lost              //
	blocked           //
	upToDate          //
	notNeeded         // when: failure, and no need has failed
	phaseCount        // number of phases
)

var publicPhases = [phaseCount]state.Phase{
	unselected: "", pending: state.Pending, ready: state.Pending, preparing: state.Running, running: state.Running,
	waiting: state.Waiting, held: state.Pending, succeeded: state.Succeeded, failed: state.Failed, timedOut: state.Timeout,
	outOfMemory: state.OOM, stalled: state.Stalled, pruned: state.Pruned, cancelled: state.Cancelled, interrupted: state.Interrupted, lost: state.Lost,
	blocked: state.Blocked, upToDate: state.UpToDate, notNeeded: state.NotNeeded,
}

func (p phase) public() state.Phase { return publicPhases[p] }

// over reports whether the job is finished for this run.
func (p phase) over() bool { return p >= succeeded }

// good reports whether a job in this final phase lets the jobs that need it run.
func (p phase) good() bool { return p == succeeded || p == upToDate || p == notNeeded || p == pruned }

// phaseOf returns the final phase for p.
func phaseOf(p state.Phase) phase {
	for i := succeeded; i < phaseCount; i++ {
		if publicPhases[i] == p {
			return i
		}
	}
	return failed
}

// job is the core's own state for one job, beyond its jobspec.Job. There may be a million
// of them.
type job struct {
	phase    phase
	fate     decision // from its verdict
	bad      bool     // a need ended without success
	quit     bool     // cancelled by the user for this run
	paused   bool     // by the user
	gone     bool     // its reloaded file no longer has it
	anew     bool     // it runs, and what its earlier attempts reported no longer counts
	queued   bool     // while running: its attempt waits in the queue of a cluster
	own      int16    // number of its live attempts
	held     int16    // number of live attempts that must end first: those of a job that used to have its name
	unmet    int32    // needs that have not ended
	attempt  int32    // number of its last attempt in this run
	failures int32    // attempts that spent a retry
	class    *class   // class it is or was ready in; nil before that
	reason   reason   // from its verdict
}

// progress tracks the state of all jobs.
type progress struct {
	evidence map[int]Evidence
	judged   bool // every job has a verdict
	jobs     []job
	counts   [phaseCount]int // selected jobs by phase
	total    int             // selected
	graph    graph
	ended    []int32             // ended jobs whose dependents have not been updated yet
	grown    map[int32]gpu.Bytes // GPU memory that jobs ask for after an oom

	grownHost map[int32]gpu.Bytes // likewise, host memory on a cluster
}

// each yields all jobs with their IDs.
func (p *progress) each(yield func(int32, *job) bool) {
	for i := range p.jobs {
		if !yield(int32(i), &p.jobs[i]) {
			return
		}
	}
}

// set moves a job to a phase and updates the counts.
func (c *Core) set(id int32, p phase) {
	j := &c.jobs[id]
	if j.phase == unselected || j.phase == p {
		return
	}
	c.changed = c.changed || c.concluding && (j.phase == held || p == held || p == interrupted)
	c.counts[j.phase]--
	c.counts[p]++
	j.phase = p
}

// RunPhase returns what the run as a whole is doing.
func (c *Core) RunPhase() schema.RunPhase {
	switch {
	case c.stopping:
		return schema.RunStopping
	case c.draining != "":
		return schema.RunDraining
	case c.opts.Watch && c.begun && len(c.live.all)+c.unstarted() == 0: // it waits for its files to change
		return schema.RunWatching
	case c.paused:
		return schema.RunPaused
	case c.unstarted()+len(c.live.all) > 0 && c.live.allQueued():
		return schema.RunWaiting
	}
	return schema.RunRunning
}

// unstarted returns how many jobs are still to start.
func (p *progress) unstarted() int {
	return p.counts[pending] + p.counts[ready] + p.counts[waiting] + p.counts[held]
}

// Phase returns a job's current phase, or "" if the job is not selected.
func (c *Core) Phase(id int) state.Phase {
	if j := &c.jobs[id]; j.queued && j.phase == running {
		return state.Queued
	}
	return c.jobs[id].phase.public()
}

func (c *Core) spec(id int32) *jobspec.Spec { return c.b.Jobs[id].Spec }

func (c *Core) name(id int32) string { return c.b.Jobs[id].Name }

func (c *Core) file(id int32) int { return c.b.Jobs[id].File }

// request returns a job's current request: with learned memory if the job file sets none, with more
// memory after an oom if memory_growth is set, and without the GPUs that the job avoids.
func (c *Core) request(id int32) gpu.Request {
	req := c.spec(id).Request
	if m, runs := c.Learned(int(id)); runs > 0 {
		req.Memory = m
	}
	if m, ok := c.grown[id]; ok {
		req.Memory, req.Part = max(req.Memory, m), false
	}
	if req.Max > 0 {
		req.Avoid = c.health.avoid(id)
		req.Lasts, _ = c.timeout(id)
	}
	return req
}

// last returns the history's record of a job, or nil.
func (c *Core) last(id int32) *state.Record {
	if c.h.Empty() {
		return nil
	}
	return c.h.Of(c.file(id), c.b.Jobs[id].Key.String())
}

// graph maps each job to the jobs that need it.
type graph struct {
	needers [][]int32
	order   []int32 // jobs, each after its needs; without those on a cycle, which no loaded batch has
}

func newGraph(b *jobspec.Batch) graph {
	g := graph{needers: make([][]int32, len(b.Jobs)), order: make([]int32, 0, len(b.Jobs))}
	left := make([]int32, len(b.Jobs)) // by job: needs that are not in order yet
	for i := range b.Jobs {
		for _, n := range b.Jobs[i].Needs {
			g.needers[n] = append(g.needers[n], int32(i))
		}
		if left[i] = int32(len(b.Jobs[i].Needs)); left[i] == 0 {
			g.order = append(g.order, int32(i))
		}
	}
	for i := 0; i < len(g.order); i++ {
		for _, d := range g.needers[g.order[i]] {
			if left[d]--; left[d] == 0 {
				g.order = append(g.order, d)
			}
		}
	}
	return g
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
		// An interrupted job is neither done nor failed. The jobs that need it stay as they are; no
		// more jobs start in this run anyway.
		if p := c.jobs[id].phase; p != interrupted {
			for _, d := range c.graph.needers[id] {
				c.jobs[d].unmet--
				c.jobs[d].bad = c.jobs[d].bad || !p.good()
				c.needsEnded(d)
				c.consider(d)
			}
		}
		c.queueMoves(c.b.Jobs[id].Queue)
		if c.jobs[id].gone {
			c.leave(id)
		}
	}
	if c.changed {
		c.recount()
	}
}

// needed returns how many needs of a job have not ended, and whether one ended without success.
func (c *Core) needed(id int32) (unmet int32, bad bool) {
	for _, n := range c.b.Jobs[id].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected && c.jobs[n].own > 0: // an earlier run started it
			unmet++
		case p == unselected:
			bad = bad || c.lacksNeed(id, n)
		case !p.over() && !(p == held && c.concluding), p == interrupted && !c.concluding:
			unmet++
		default:
			bad = bad || !p.good()
		}
	}
	return unmet, bad
}

// blocks reports whether a job can no longer run because of its needs.
func (c *Core) blocks(id int32) bool {
	return c.jobs[id].bad && !c.anyway(id)
}

// consider moves a pending job on: to ready, blocked or held, or to its end if it has
// nothing to do.
func (c *Core) consider(id int32) {
	j := &c.jobs[id]
	if j.phase != pending || !c.begun {
		return
	}
	switch b := c.barrier(id); {
	case c.blocks(id):
		c.end(id, blocked)
	case j.unmet == 0 && c.missesPruned(id, c.isPruned) >= 0:
		c.end(id, pruned)
	case c.isHeld(id) || !c.anyway(id) && c.needsHeld(id):
		c.holdJob(id)
	case c.spec(id).When == jobspec.OnFailure && !j.bad && (b == nil || b == atPause || b == atQueue):
		c.end(id, notNeeded)
	case b == nil:
		c.makeReady(id)
	}
}

// A barrier keeps a job from being ready.
type barrier struct {
	stands func(c *Core, id int32) bool
	why    func(c *Core, id int32) *schema.Wait
}

var (
	atNeeds   = &barrier{func(c *Core, id int32) bool { return c.jobs[id].unmet > 0 }, (*Core).whyNeeds}
	atAttempt = &barrier{func(c *Core, id int32) bool { return c.jobs[id].held > 0 || c.jobs[id].own > 0 }, (*Core).whyAttempt}
	atMove    = &barrier{(*Core).moving, (*Core).whyMoving}
	atPause   = &barrier{func(c *Core, id int32) bool { return c.jobs[id].paused }, (*Core).whyPaused}
	atQueue   = &barrier{func(c *Core, id int32) bool { return !c.turn(id) }, (*Core).whyQueue}
)

// barrier returns the first barrier that applies to a job, or nil.
func (c *Core) barrier(id int32) *barrier {
	for _, b := range []*barrier{atNeeds, atAttempt, atMove, atPause, atQueue} {
		if b.stands(c, id) {
			return b
		}
	}
	return nil
}

// whyNeeds names the first need that has not ended and counts the others.
func (c *Core) whyNeeds(id int32) *schema.Wait {
	var w *schema.Wait
	for _, n := range c.b.Jobs[id].Needs {
		p := c.jobs[n].phase
		switch {
		case p == unselected && c.jobs[n].own == 0 || p.over() && p != interrupted:
			continue
		case w != nil:
			w.On(c.name(n))
			continue
		}
		word, more := "needs", ""
		if c.anyway(id) {
			word = "runs after"
		}
		if unmet := c.jobs[id].unmet; unmet > 1 {
			more = fmt.Sprintf(" and %d more", unmet-1)
		}
		w = waits(schema.WaitNeed, "%s %s%s", word, c.name(n), more).On(c.name(n))
	}
	return w
}

func (c *Core) whyAttempt(id int32) *schema.Wait {
	for _, a := range c.live.all {
		follows := slices.Contains(a.followers, id)
		if follows && a.job >= 0 && !c.jobs[a.job].gone {
			now := c.name(a.job)
			if now == a.name {
				return waits(schema.WaitEarlier, "%s, which writes to this job's log, is still running", now).On(now)
			}
			return waits(schema.WaitEarlier, "%s, which was called %s when it started and writes to this job's log, is still running", now, a.name).On(now)
		}
		if follows || a.job == id {
			if !a.adopted {
				return waits(schema.WaitEarlier, "the version of %s from before the reload is still running (since %s)", a.name, gpu.Clock(a.start, c.now.Wall)).On(a.name)
			}
			return waits(schema.WaitEarlier, "an attempt of an earlier run is still running (pid %d, since %s)", a.pid, gpu.Clock(a.start, c.now.Wall)).On(a.name)
		}
	}
	return nil
}

func (c *Core) whyMoving(int32) *schema.Wait {
	return waits(schema.WaitKept, "being resized: it continues once the GPUs kept for it are free")
}
