package sched

import (
	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// phase is state.Phase in a byte, with the steps that only the core tells apart.
type phase uint8

const (
	unselected  phase = iota
	pending           // its needs, its queue or an earlier attempt do not let it run yet
	ready             // in the heap of its class
	preparing         // granted what it needs; the edge makes ready for its start
	running           //
	waiting           // for its retry
	held              // by the breaker; see there
	succeeded         // from here on nothing more happens to it in this run
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

// over says that nothing more happens to the job in this run.
func (p phase) over() bool { return p >= succeeded }

func (p phase) good() bool { return p == succeeded || p == upToDate || p == notNeeded }

// phaseOf is the phase of an end.
func phaseOf(p state.Phase) phase {
	for i := succeeded; i < phaseCount; i++ {
		if publicPhases[i] == p {
			return i
		}
	}
	return failed
}

// job is what the core knows of one job beyond its jobspec.Job. There may be a
// million of them.
type job struct {
	phase    phase
	verdict  code  // why it runs, or not
	bad      bool  // a need has ended without success
	quit     bool  // a person wants no more of it in this run
	own      int16 // live attempts of it
	held     int16 // live attempts of others that must end before it may start: of a job that had its name
	about    int32 // what the verdict speaks of: a need, or a number
	unmet    int32 // needs that have not ended
	class    int32 // that it is or was ready in; -1 before
	attempt  int32 // number of its last attempt in this run
	failures int32 // attempts that spent a retry
}

// set moves a job to a phase and keeps the counts.
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

func (c *Core) spec(id int32) *jobspec.Spec { return c.b.Jobs[id].Spec }

func (c *Core) name(id int32) string { return c.b.Jobs[id].Name }

func (c *Core) file(id int32) int { return c.b.Jobs[id].File }

// request is what a job asks for now: more memory than its file says after an
// oom with memory_growth.
func (c *Core) request(id int32) gpu.Request {
	req := c.spec(id).Request
	if m, ok := c.grown[id]; ok {
		req.Memory = m
	}
	return req
}

// last is what the history says of a job, or nil.
func (c *Core) last(id int32) *state.Record {
	if c.h.Empty() {
		return nil
	}
	return c.h.Of(c.file(id), c.b.Jobs[id].Key.String())
}
