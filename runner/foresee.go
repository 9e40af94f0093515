package runner

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/forecast"
	"gpurun/state/schema"
)

// foresight is when the run is expected to end, what that goes by, and why jobs have failed.
type foresight struct {
	end  *schema.End
	fail []schema.Alike     // by error
	done map[string]float64 // by uni_id: how much of their work attempts have done, by their logs
	most map[string]float64 // the most that they ever had; one that begins anew says nothing
	busy bool
	next time.Time       // when to look again
	seen gpu.Observation // the latest reading of all GPUs, with their processes
}

const (
	// foreseeEvery is the shortest interval between estimates.
	foreseeEvery = 2 * time.Second
	// Estimates may take 1/foreseeShare of a run's time.
	foreseeShare = 50
)

// foresee estimates the end of the run outside the loop, when it is due.
func (l *loop) foresee() {
	f, now := &l.foresight, l.Now()
	if f.busy || now.Wall.Before(f.next) || l.finished {
		return
	}
	began, over := time.Now(), l.over()
	rest, logs, most := l.Core.Remaining(now, f.seen), map[string]logPart{}, map[string]float64{}
	for _, o := range rest.Open {
		if at := l.attempts.live[o.Start.UniID]; at != nil {
			logs[o.Start.UniID], most[o.Start.UniID] = at.out, f.most[o.Start.UniID]
		}
	}
	f.busy = true
	l.beside(func() func() {
		done := map[string]float64{}
		for id, log := range logs {
			if p, ok := forecast.Progress(string(log.tail(tailBytes))); ok && p >= most[id] {
				done[id], most[id] = p, p
			} else if ok {
				most[id] = 2 // it begins anew, as bars of epochs do
			}
		}
		end := forecast.End(rest, done)
		fail, _ := schema.Failures(over)
		took := time.Since(began)
		return func() {
			f.busy, f.end, f.fail, f.done, f.most, f.next = false, end, fail, done, most, l.Now().Wall.Add(max(foreseeEvery, foreseeShare*took))
			l.shown.dirty = true
		}
	})
}

// over returns the jobs that have ended in the run; none while none has failed.
func (l *loop) over() (jobs []*schema.Job) {
	if !slices.ContainsFunc(l.Batch.Jobs, func(j jobspec.Job) bool { return l.Core.Phase(j.ID).Bad() }) {
		return nil
	}
	for id := range l.Batch.Jobs {
		j, p := &l.Batch.Jobs[id], l.Core.Phase(id)
		if r := l.Core.History().Of(j.File, j.Key.String()); r != nil && p != "" && p.Ended() {
			jobs = append(jobs, &schema.Job{Name: j.Name, State: p, Params: Params(j), Attempts: r.Attempt, Cause: schema.CauseOf(&r.Fact), Attempt: schema.Ended(r)})
		}
	}
	return jobs
}

// tailBytes is how much of a log's end is searched for progress.
const tailBytes = 4 << 10

// foreseen adds the estimate to a status.
func (f *foresight) foreseen(st *schema.Status) {
	if st.Live.End = f.end; f.end != nil && f.end.From != nil {
		st.ETA = schema.AtLeast(f.end.From.Add(f.end.To.Sub(*f.end.From)/2).Sub(st.Now).Seconds(), 1)
	}
	f.progress(st)
	st.Alike = schema.List(f.fail)
	st.Sum()
}

// progress adds the progress of attempts to a status.
func (f *foresight) progress(st *schema.Status) {
	for i := range st.Jobs {
		if a := st.Jobs[i].Attempt; a != nil && a.UniID != nil {
			a.Progress = schema.Known(f.done[*a.UniID])
		}
	}
}
