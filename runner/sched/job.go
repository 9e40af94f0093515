package sched

import (
	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// phase is a state.Phase in one byte, plus the steps that only the core tells apart.
type phase uint8

const (
	unselected  phase = iota
	pending           // blocked for now by its needs, its queue or an earlier attempt
	ready             // in the heap of its class
	preparing         // resources granted; the edge is preparing its start
	running           //
	waiting           // for its retry delay
	held              // by the breaker
	succeeded         // this and all below are final in this run
	failed            //
	timedOut          //
	outOfMemory       //
	cancelled         //
	interrupted       //
	lost              //
	blocked           //
	upToDate          //
	notNeeded         // when: failure, and no need has failed
	phaseCount        // how many there are
)

var publicPhases = [phaseCount]state.Phase{
	unselected: "", pending: state.Pending, ready: state.Pending, preparing: state.Running, running: state.Running,
	waiting: state.Waiting, held: state.Pending, succeeded: state.Succeeded, failed: state.Failed, timedOut: state.Timeout,
	outOfMemory: state.OOM, cancelled: state.Cancelled, interrupted: state.Interrupted, lost: state.Lost,
	blocked: state.Blocked, upToDate: state.UpToDate, notNeeded: state.NotNeeded,
}

func (p phase) public() state.Phase { return publicPhases[p] }

// over reports whether the job is finished for this run.
func (p phase) over() bool { return p >= succeeded }

func (p phase) good() bool { return p == succeeded || p == upToDate || p == notNeeded }

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
	fate     fate   // of its verdict
	bad      bool   // a need ended without success
	quit     bool   // cancelled by the user for this run
	own      int16  // its live attempts
	held     int16  // live attempts that must end first: those of a job that used to have its name
	unmet    int32  // needs that have not ended
	attempt  int32  // number of its last attempt in this run
	failures int32  // attempts that spent a retry
	class    *class // class it is or was ready in; nil before that
	reason   string // of its verdict
}

// progress is what has become of the jobs.
type progress struct {
	evidence map[int]Evidence
	judged   bool // every job has a verdict
	jobs     []job
	counts   [phaseCount]int // selected jobs by phase
	total    int             // selected
	graph    graph
	ended    []int32             // ended jobs whose dependents have not been updated yet
	grown    map[int32]gpu.Bytes // GPU memory that jobs ask for after an oom
}

func newProgress(b *jobspec.Batch) progress {
	return progress{jobs: make([]job, len(b.Jobs)), graph: newGraph(b), evidence: map[int]Evidence{}, grown: map[int32]gpu.Bytes{}}
}

// set moves a job to a phase and updates the counts.
func (c *Core) set(id int32, p phase) {
	j := &c.jobs[id]
	if j.phase == unselected || j.phase == p {
		return
	}
	if j.phase == held {
		c.countHeld(id, -1)
	} else if p == held {
		c.countHeld(id, 1)
	}
	c.counts[j.phase]--
	c.counts[p]++
	j.phase = p
}

// Phase returns a job's current phase, or "" if the job is not selected.
func (c *Core) Phase(id int) state.Phase { return c.jobs[id].phase.public() }

func (c *Core) spec(id int32) *jobspec.Spec { return c.b.Jobs[id].Spec }

func (c *Core) name(id int32) string { return c.b.Jobs[id].Name }

func (c *Core) file(id int32) int { return c.b.Jobs[id].File }

// request returns what a job asks for now, which is more memory than its file says after
// an oom with memory_growth.
func (c *Core) request(id int32) gpu.Request {
	req := c.spec(id).Request
	if m, ok := c.grown[id]; ok {
		req.Memory = m
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
