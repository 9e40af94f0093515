package runner

import (
	"maps"
	"slices"
	"time"

	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// A tally collects the data for the summary, fact by fact.
type tally struct {
	schema.Result
	began   time.Time
	starts  map[string]state.Fact // of live attempts, by uni_id
	last    map[int]Last          // by job: its last end, unless that was a success
	demands map[int]schema.Demand // by job
	held    state.GPUTime
}

func newTally(now time.Time) tally {
	return tally{began: now, starts: map[string]state.Fact{}, last: map[int]Last{}, demands: map[int]schema.Demand{}, held: state.GPUTime{}}
}

func (t *tally) fact(l *loop, a sched.Record) {
	f := a.Fact
	switch f.Kind {
	case state.KindStart:
		t.starts[f.UniID] = f
	case state.KindEnd:
		start := t.starts[f.UniID]
		delete(t.starts, f.UniID)
		if start.Kind != "" {
			t.held.AddAttempt(&start, &f)
		}
		if a.Job < 0 {
			return
		}
		delete(t.last, a.Job)
		if f.State != state.Succeeded {
			e := Recorded(state.NewRecord(a.File, 0, f, &state.Attempt{Start: start, Ledger: a.File}))
			if at := l.attempts.live[f.UniID]; at != nil {
				e.out = at.out
			}
			t.last[a.Job] = e
		}
		s := l.Batch.Jobs[a.Job].Spec
		t.demand(a.Job, f, start, l.Batch.Settings.Learn && (s.DefaultMemory || s.LeastMemory))
	}
}

// demand records a job that used far less memory than it requested, or more, for which a single
// reading is proof. If the request was learned, a job that used less does not count, and neither
// does one that preallocates memory.
func (t *tally) demand(job int, f, start state.Fact, learns bool) {
	if f.State != state.Succeeded || f.PeakMemory <= 0 || start.Memory <= 0 || len(start.GPUs) == 0 || learns && f.Preallocated {
		return
	}
	d := schema.Demand{Job: f.Job, Asked: start.Memory, Peak: f.PeakMemory, Readings: f.PeakReadings}
	if (d.Peak > d.Asked || d.TooMuch() && !learns) && len(t.demands) < maxFailures {
		t.demands[job] = d
	}
}

func (l *loop) result() schema.Result {
	l.save()
	now, r := l.Now(), l.out.Result
	r.Final, r.Wall, r.GPUHours = l.Core.Snapshot(now), now.Wall.Sub(l.out.began), l.out.held.Total().Hours()
	for _, s := range l.Sinks {
		s.Snapshot(r.Final)
	}
	r.Failures = Failures(l.Batch, l.Core.Phase, func(id int) Last { return l.out.last[id] })
	for _, id := range slices.Sorted(maps.Keys(l.out.demands)) {
		r.Demands = append(r.Demands, l.out.demands[id])
	}
	return r
}
