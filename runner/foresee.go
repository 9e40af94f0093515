package runner

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/forecast"
	"gpurun/runner/sched"
	"gpurun/state/schema"
)

// foresight is when the run is expected to end, what that goes by, and why jobs have failed.
type foresight struct {
	end   *schema.End
	fail  []schema.Alike     // by error
	done  map[string]float64 // by uni_id: how much of their work attempts have done, by their logs
	steps map[string]int     // and of how many steps, if they count them
	most  map[string]float64 // the most that they ever had; one that begins anew says nothing
	busy  bool
	next  time.Time       // when to look again at the logs
	again time.Time       // and at the rest
	seen  gpu.Observation // the latest reading of all GPUs, with their processes
}

const (
	// readEvery is the shortest interval between readings of logs, and foreseeEvery between estimates.
	readEvery    = time.Second
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
	began, logs, most, all := time.Now(), map[string]logPart{}, map[string]float64{}, !now.Wall.Before(f.again)
	for id, at := range l.attempts.live {
		logs[id], most[id] = at.out, f.most[id]
	}
	var rest *sched.Remaining
	var over []*schema.Job
	if all {
		rest, over = l.Core.Remaining(now, f.seen), l.over()
	}
	f.busy = true
	l.beside(func() func() {
		reading, end, fail, done, steps := time.Now(), f.end, f.fail, map[string]float64{}, map[string]int{}
		for id, log := range logs {
			if p, n, ok := forecast.Progress(string(log.tail(tailBytes))); ok && p >= most[id] {
				done[id], most[id], steps[id] = p, p, n
			} else if ok {
				most[id] = 2 // it begins anew, as bars of epochs do
			}
		}
		read := time.Since(reading)
		if all {
			end = forecast.End(rest, done)
			fail, _ = schema.Failures(over)
		}
		took := time.Since(began)
		return func() {
			wall := l.Now().Wall
			if f.next = wall.Add(max(readEvery, foreseeShare*read)); all {
				f.again = wall.Add(max(foreseeEvery, foreseeShare*took))
			}
			f.busy, f.end, f.fail, f.done, f.steps, f.most = false, end, fail, done, steps, most
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
			a.Progress, a.Steps = schema.Known(f.done[*a.UniID]), schema.Known(f.steps[*a.UniID])
		}
	}
}
