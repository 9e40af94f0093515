package runner

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/forecast"
	"gpurun/runner/sched"
	"gpurun/state/schema"
)

// An estimate is the expected end of the run, with the data behind it and the failures so far.
type estimate struct {
	end   *schema.End
	phase schema.RunPhase           // phase of the run for which end was computed
	fail  []schema.Alike            // failure groups
	done  map[string]float64        // progress of attempts from their logs, by uni_id
	steps map[string]int            // total steps of attempts that count them
	says  map[string]map[string]any // newest metrics in the logs of attempts, by uni_id
	most  map[string]float64        // highest progress of each attempt; more than 1 once it has started over
	busy  bool
	next  time.Time       // when to read the logs again
	again time.Time       // when to estimate again
	seen  gpu.Observation // latest reading of all GPUs, with processes
}

const (
	// readEvery is the shortest interval between readings of logs; estimateEvery, between estimates.
	readEvery     = time.Second
	estimateEvery = 2 * time.Second
	// Estimates take at most 1/estimateShare of a run's time.
	estimateShare = 50
)

// estimateEnd updates the estimate, outside the loop, when it is due.
func (l *loop) estimateEnd() {
	f, now := &l.foresight, l.Now()
	if f.busy || now.Wall.Before(f.next) || l.finished {
		return
	}
	began, logs, most, phase := time.Now(), map[string]logParts{}, map[string]float64{}, l.Core.RunPhase()
	all := phase != f.phase || !now.Wall.Before(f.again)
	metrics := map[string][]jobspec.Metric{}
	for id, at := range l.attempts.live {
		logs[id], most[id] = at.out, f.most[id]
		metrics[id] = slices.DeleteFunc(slices.Clone(at.metrics), func(m jobspec.Metric) bool { return m.Log == nil })
	}
	var rest *sched.Remaining
	var over []*schema.Job
	if all {
		rest, over = l.Core.Remaining(now, f.seen), l.over()
	}
	f.busy = true
	l.offload(func() func() {
		reading, end, fail, done, steps, says := time.Now(), f.end, f.fail, map[string]float64{}, map[string]int{}, map[string]map[string]any{}
		for id, log := range logs {
			if list := metrics[id]; len(list) > 0 {
				news := files.Measure(list, log.found(), files.Limits{Bytes: logTail, Until: reading.Add(readEvery)}).Values
				for name, old := range f.says[id] {
					if _, known := news[name]; !known {
						news[name] = old
					}
				}
				says[id] = news
			}
			if p, n, ok := forecast.Progress(string(log.tail(tailBytes))); ok && p >= most[id] {
				done[id], most[id], steps[id] = p, p, n
			} else if ok {
				most[id] = 2 // it started over, like a progress bar that restarts every epoch
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
			if f.next = wall.Add(max(readEvery, estimateShare*read)); all {
				f.phase, f.again = phase, wall.Add(max(estimateEvery, estimateShare*took))
			}
			f.busy, f.end, f.fail, f.done, f.steps, f.says, f.most = false, end, fail, done, steps, says, most
			l.shown.dirty = true
		}
	})
}

// over returns the jobs that have ended in the run, or nil if none has failed.
func (l *loop) over() (jobs []*schema.Job) {
	if !slices.ContainsFunc(l.Batch.Jobs, func(j jobspec.Job) bool { return l.Core.Phase(j.ID).Bad() }) {
		return nil
	}
	for id := range l.Batch.Jobs {
		j, p := &l.Batch.Jobs[id], l.Core.Phase(id)
		if r := l.Core.History().Of(j.File, j.Key.String()); r != nil && p != "" && p.Ended() {
			over := schema.EndedJob(j.Name, p, r)
			over.Params = Params(j)
			jobs = append(jobs, over)
		}
	}
	return jobs
}

// tailBytes is how much of a log's end is searched for progress.
const tailBytes = 4 << 10

// addTo adds the estimate to a status.
func (f *estimate) addTo(st *schema.Status) {
	if st.Is(f.phase) { // otherwise f.end belongs to another phase
		st.Live.End = f.end
	}
	if e := st.Live.End; e != nil && e.From != nil {
		st.ETA = schema.AtLeast(e.From.Add(e.To.Sub(*e.From)/2).Sub(st.Now).Seconds(), 1)
	}
	f.progress(st)
	st.Alike = schema.List(f.fail)
	st.Sum()
}

// progress adds the progress and the newest metrics of attempts to a status.
func (f *estimate) progress(st *schema.Status) {
	for i := range st.Jobs {
		if a := st.Jobs[i].Attempt; a != nil && a.UniID != nil {
			a.Progress, a.Steps = schema.Known(f.done[*a.UniID]), schema.Known(f.steps[*a.UniID])
			if says := f.says[*a.UniID]; len(says) > 0 && a.Ended == nil {
				a.Metrics = says
			}
		}
	}
}
