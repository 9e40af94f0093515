package runner

import (
	"maps"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Result is the outcome of a run.
type Result struct {
	Final    state.Snapshot
	Failures []state.FailedJob // one for all jobs that failed alike, in batch order; at most maxFailures, but Final counts all
	Demands  []state.Demand    // jobs that used far more or less GPU memory than requested
	Warnings []string          // for the summary
	Wall     time.Duration     // of this run
	GPUHours float64
	Stopped  string // what stopped the whole run, "SIGTERM", or ""
	StateErr error  // why the ledger could not be written, or nil
	GaveUp   bool   // gave up waiting for a GPU
}

// tally collects the summary's data, fact by fact.
type tally struct {
	Result
	began   time.Time
	starts  map[string]state.Fact // of live attempts, by uni_id
	last    map[int]Last          // last bad end of each job
	demands map[int]state.Demand  // by job
	hours   hours
}

func newTally(now time.Time) tally {
	return tally{began: now, starts: map[string]state.Fact{}, last: map[int]Last{}, demands: map[int]state.Demand{}, hours: hours{on: map[gpu.UUID]*occupied{}}}
}

func (t *tally) stopped(s sched.StopRequested) {
	if s.All && t.Stopped == "" {
		t.Stopped = s.Why
	}
}

// started adds an attempt that is now live.
func (t *tally) started(f state.Fact) {
	t.starts[f.UniID] = f
	t.hours.started(f)
}

// fact collects what the summary needs from a fact.
func (t *tally) fact(l *loop, a sched.Record) {
	f := a.Fact
	switch f.Kind {
	case state.KindStart:
		t.started(f)
	case state.KindEnd:
		start := t.starts[f.UniID]
		delete(t.starts, f.UniID)
		t.hours.ended(start, f, l.Now().Boot)
		if a.Job < 0 {
			return
		}
		delete(t.last, a.Job)
		if f.State != state.Succeeded {
			e := Last{Start: start, End: f, out: logOf(start.Log)}
			if at := l.attempts.live[f.UniID]; at != nil {
				e.out = at.out
			}
			t.last[a.Job] = e
		}
		t.demand(a.Job, f, start)
	}
}

// enough is how many readings it takes before a job is advised to request less memory.
const enough = 10

// demand records a job that requested more than twice what it used, or used more than
// it requested; the latter takes only one reading to know.
func (t *tally) demand(job int, f, start state.Fact) {
	if f.State != state.Succeeded || f.PeakMemory <= 0 || start.Memory <= 0 || len(start.GPUs) == 0 {
		return
	}
	less := 2*f.PeakMemory < start.Memory && f.PeakReadings >= enough
	if f.PeakMemory <= start.Memory && !less || len(t.demands) >= maxFailures {
		return
	}
	t.demands[job] = state.Demand{Job: f.Job, Asked: start.Memory, Peak: f.PeakMemory, Readings: f.PeakReadings}
}

// result builds what Run returns.
func (l *loop) result() Result {
	l.save()
	now, r := l.Now(), l.out.Result
	r.Final, r.Wall, r.GPUHours = l.Core.Snapshot(now), now.Wall.Sub(l.out.began), l.out.hours.count()
	for _, s := range l.Sinks {
		s.Snapshot(r.Final)
	}
	r.Failures = Failures(l.Batch, l.Core.Phase, func(id int) (Last, bool) {
		e, ok := l.out.last[id]
		return e, ok
	})
	for _, id := range slices.Sorted(maps.Keys(l.out.demands)) {
		r.Demands = append(r.Demands, l.out.demands[id])
	}
	return r
}

// hours counts GPU hours. Time on a shared GPU counts once, however many jobs share it.
type hours struct {
	on    map[gpu.UUID]*occupied
	total time.Duration
}

// occupied is when jobs were on one GPU since it was last idle.
type occupied struct {
	live  int
	spans []span // of jobs that have ended, in order, disjoint
}

// A span is measured in CLOCK_BOOTTIME.
type span struct{ from, to time.Duration }

func (h *hours) started(start state.Fact) {
	for _, id := range start.GPUUUIDs {
		if h.on[id] == nil {
			h.on[id] = &occupied{}
		}
		h.on[id].live++
	}
}

func (h *hours) ended(start, end state.Fact, now time.Duration) {
	s := span{now - time.Duration(end.Seconds*float64(time.Second)), now}
	for _, id := range start.GPUUUIDs {
		o := h.on[id]
		if o == nil {
			continue
		}
		o.add(s)
		if o.live--; o.live == 0 {
			h.total += o.sum()
			o.spans = nil
		}
	}
}

// add merges in a span that ends no earlier than the others.
func (o *occupied) add(s span) {
	for n := len(o.spans) - 1; n >= 0 && o.spans[n].to >= s.from; n-- {
		s.from = min(s.from, o.spans[n].from)
		o.spans = o.spans[:n]
	}
	o.spans = append(o.spans, s)
}

func (o *occupied) sum() (d time.Duration) {
	for _, s := range o.spans {
		d += s.to - s.from
	}
	return d
}

// count returns the total, including ended jobs on GPUs that other jobs are still using.
func (h *hours) count() float64 {
	all := h.total
	for _, o := range h.on {
		all += o.sum()
	}
	return all.Hours()
}
