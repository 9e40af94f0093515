package sched

import (
	"gpurun/jobspec"
	"gpurun/state"
)

// Phases returns each job's phase while no run is active: the one in which the last run
// of its file left it. Jobs with an open attempt count as running.
func Phases(b *jobspec.Batch, h *state.History) []state.Phase {
	p := after{b: b, h: h, phases: make([]state.Phase, len(b.Jobs)), open: map[string]bool{}}
	for _, a := range h.Open {
		p.open[jobKey(a.Ledger, a.Start.Key)] = true
	}
	if g := newGraph(b); g.order != nil {
		for _, id := range g.order {
			p.phases[id] = p.of(id)
		}
	} else {
		for id := range b.Jobs {
			p.phases[id] = p.of(int32(id))
		}
	}
	return p.phases
}

// after is one pass over all jobs, each after its needs.
type after struct {
	b      *jobspec.Batch
	h      *state.History
	phases []state.Phase
	open   map[string]bool // keys with an attempt that has not ended, by jobKey
}

func (p *after) of(id int32) state.Phase {
	j := &p.b.Jobs[id]
	if len(p.open) > 0 && p.open[jobKey(j.File, j.Key.String())] {
		return state.Running
	}
	rec := p.h.Of(j.File, j.Key.String())
	if rec != nil && rec.Forgotten {
		rec = nil
	}
	// An end from before the last run is what that run started from; the needs tell what it did.
	before := rec == nil || rec.End.Before(p.h.LastRun(j.File).Time)
	if before {
		if phase := p.byNeeds(j); phase != "" {
			return phase
		}
	}
	switch {
	case rec == nil, before && (rec.State == state.Interrupted || rec.State == state.Cancelled):
		return state.Pending
	case before && rec.State == state.Succeeded:
		return state.UpToDate
	}
	return rec.State
}

// byNeeds returns the phase that a job's needs alone put it in, or "".
func (p *after) byNeeds(j *jobspec.Job) state.Phase {
	bad, all := false, true
	for _, n := range j.Needs {
		bad = bad || p.phases[n].Bad()
		all = all && (p.phases[n].Ended() && p.phases[n] != state.Interrupted)
	}
	switch when := j.Spec.When; {
	case when == jobspec.OnFailure && all && !bad:
		return state.NotNeeded
	case when != jobspec.OnFailure && when != jobspec.Always && bad:
		return state.Blocked
	}
	return ""
}
