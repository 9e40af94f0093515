package runner

import (
	"maps"
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
	phase schema.RunPhase       // phase of the run for which end was computed
	fail  []schema.Alike        // failure groups
	logs  map[string]logReading // of the attempts, by uni_id
	busy  bool
	next  time.Time       // when to read the logs again
	again time.Time       // when to estimate again
	seen  gpu.Observation // latest reading of all GPUs, with processes
}

// A logReading is what the log of an attempt showed when it was last read.
type logReading struct {
	done    float64        // progress; 0 if unknown
	steps   int            // total steps, if the attempt counts them
	most    float64        // highest progress; more than 1 once the attempt has started over
	metrics map[string]any // newest values
}

const (
	// readEvery is the shortest interval between readings of logs; estimateEvery, between estimates.
	readEvery     = time.Second
	estimateEvery = 2 * time.Second
	// Estimates take at most 1/estimateShare of a run's time.
	estimateShare = 50
)

// estimateEnd starts an update of the estimate outside the loop, if one is due.
func (l *loop) estimateEnd() {
	f, now := &l.foresight, l.Now()
	if f.busy || now.Wall.Before(f.next) || l.finished {
		return
	}
	began, live, was, phase := time.Now(), maps.Clone(l.attempts.live), f.logs, l.Core.RunPhase()
	all := phase != f.phase || !now.Wall.Before(f.again)
	var rest *sched.Remaining
	var over []*schema.Job
	if all {
		rest, over = l.Core.Remaining(now, f.seen), l.over()
	}
	f.busy = true
	l.offload(func() func() {
		reading, end, fail, read, done := time.Now(), f.end, f.fail, map[string]logReading{}, map[string]float64{}
		for id, at := range live {
			r := was[id]
			inLog := slices.DeleteFunc(slices.Clone(at.metrics), func(m jobspec.Metric) bool { return m.Log == nil })
			if len(inLog) > 0 {
				news := files.Measure(inLog, at.out.found(), files.Limits{Bytes: logTail, Until: reading.Add(readEvery)}).Values
				for name, old := range r.metrics {
					if _, known := news[name]; !known {
						news[name] = old
					}
				}
				r.metrics = news
			}
			r.done, r.steps = 0, 0
			if p, n, ok := forecast.Progress(string(at.out.tail(tailBytes))); ok && p >= r.most {
				r.done, r.most, r.steps = p, p, n
			} else if ok {
				r.most = 2 // it started over, like a progress bar that restarts every epoch
			}
			read[id], done[id] = r, r.done
		}
		reads := time.Since(reading)
		if all {
			end = forecast.End(rest, done)
			fail, _ = schema.Failures(over)
		}
		took := time.Since(began)
		return func() {
			wall := l.Now().Wall
			if f.next = wall.Add(max(readEvery, estimateShare*reads)); all {
				f.phase, f.again = phase, wall.Add(max(estimateEvery, estimateShare*took))
			}
			f.busy, f.end, f.fail, f.logs = false, end, fail, read
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
	for _, j := range st.Jobs {
		if a := j.Attempt; a != nil && a.UniID != nil {
			r := f.logs[*a.UniID]
			if a.Progress, a.Steps = schema.Known(r.done), schema.Known(r.steps); len(r.metrics) > 0 && a.Ended == nil {
				a.Metrics = r.metrics
			}
		}
	}
}
