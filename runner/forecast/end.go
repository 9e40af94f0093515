package forecast

import (
	"math"
	"time"

	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

const (
	// minProgress is the share of its work that an attempt must have done before its log predicts the
	// rest.
	minProgress = 0.03
	// trustedProgress is the share above which the log alone predicts the rest.
	trustedProgress = 0.25
	// progressError is the relative error of a prediction from a log.
	progressError = 0.05
	// maxSimulated is how many jobs End simulates at most. For more, it divides the total work by
	// the number of running jobs.
	maxSimulated = 1000
)

// End estimates when a run will end. It uses the progress in the attempts' logs (done, by uni_id,
// from 0 to 1), or else the durations of similar jobs. It returns nil if no jobs remain.
func End(r *sched.Remaining, done map[string]float64) *schema.End {
	jobs := r.Batch.Jobs
	if len(jobs) == 0 {
		return nil
	}
	open, e := map[string]*state.Attempt{}, &schema.End{Without: []string{}}
	for i := range r.Open {
		o := &r.Open[i]
		open[o.Start.Key] = o
		if name := r.Stalled[o.Start.UniID]; name != "" {
			e.Without = append(e.Without, name)
		}
	}
	if r.Cluster && len(open) < len(jobs) {
		e.Unknown = schema.Known("the cluster decides when jobs start")
		return e
	}
	takes, work, unsure, lanes := make([]time.Duration, len(jobs)), 0.0, 0.0, 0
	foreseen := []float32{} // seconds that running jobs will take, judging by their progress
	for i := range jobs {
		if o := open[jobs[i].Key.String()]; o != nil && done[o.Start.UniID] > 0 && r.Stalled[o.Start.UniID] == "" {
			ran := r.Now.Wall.Sub(o.Start.Time)
			if rest, _ := remaining(r.Known[i], ran, o, done); rest > 0 {
				foreseen = append(foreseen, float32((ran + rest).Seconds()))
			}
		}
	}
	for i := range jobs {
		o, ran := open[jobs[i].Key.String()], time.Duration(0)
		if o != nil {
			if r.Stalled[o.Start.UniID] != "" {
				continue
			}
			ran, lanes = r.Now.Wall.Sub(o.Start.Time), lanes+1
		}
		known := r.Known[i]
		if len(known) == 0 {
			known = foreseen
		}
		rest, spread := remaining(known, ran, o, done)
		if rest == 0 {
			e.Unknown = schema.Known("no similar job has ended")
			return e
		}
		if takes[i] = ran + rest; jobs[i].Spec.Timeout > 0 {
			takes[i] = min(takes[i], jobs[i].Spec.Timeout)
		}
		work, unsure = work+rest.Seconds(), unsure+rest.Seconds()*spread
	}
	idle, wall, never := time.Duration(0), time.Duration(work/float64(max(lanes, 1))*1e9), []string(nil)
	if len(jobs) <= maxSimulated {
		idle, wall, never = simulate(r, takes)
	}
	if wall == 0 || len(never) > 0 && len(e.Without) == 0 {
		why := "only stalled jobs remain"
		if len(never) > 0 {
			why = never[0] + " cannot start for now"
		}
		e.Unknown = &why
		return e
	}
	e.Without = append(e.Without, never...)
	off := 0.0
	if work > 0 {
		off = unsure / work / math.Sqrt(max(1, float64(len(jobs))/float64(max(lanes, 1))))
	}
	if off < 0.05 { // the range would be less than a tenth of the remaining time
		off = 0
	}
	at := func(part float64) *time.Time {
		return schema.Time(r.Now.Wall.Add(idle + time.Duration(float64(wall-idle)*part)))
	}
	e.From, e.To = at(1-min(off, 0.9)), at(1+off)
	return e
}

// remaining estimates how much longer a job takes, and the estimate's relative error. Both are 0 if
// nothing is known. o is the job's attempt, or nil.
func remaining(known []float32, ran time.Duration, o *state.Attempt, done map[string]float64) (rest time.Duration, spread float64) {
	switch mean, off := sched.Mean(known, ran); {
	case mean > 0:
		rest, spread = max(mean-ran, min(mean, time.Second)), off
	case len(known) > 0: // it has run longer than all similar jobs
		rest, spread = max(ran/10, time.Second), 1
	}
	if o == nil {
		return rest, spread
	}
	if p := done[o.Start.UniID]; p >= minProgress && p < 1 {
		own := max(time.Duration(float64(ran)*(1-p)/p), time.Second)
		if sure := min(p/trustedProgress, 1); rest > 0 { // few steps prove little, and the first ones may be slow
			own = time.Duration(sure*float64(own) + (1-sure)*float64(rest))
		}
		return own, progressError
	}
	return rest, spread
}

// simulate runs the remaining jobs in virtual time. It returns how long they take without stalled
// attempts, idle of that until the first one starts, and the names of jobs that never start.
func simulate(r *sched.Remaining, takes []time.Duration) (idle, wall time.Duration, never []string) {
	core := r.Core()
	f := Simulate(Config{
		Batch: r.Batch, Core: core, Pool: r.Pool, Now: r.Now, Seen: r.Seen,
		Takes: func(job int) time.Duration { return takes[job] },
		Hangs: func(uniID string) bool { return r.Stalled[uniID] != "" },
	})
	for i := range r.Batch.Jobs {
		if f.Never > 0 && core.Phase(i) == state.Pending {
			never = append(never, r.Batch.Jobs[i].Name)
		}
	}
	if len(f.Spans) > 0 {
		idle = f.Spans[0].Start
	}
	return idle, f.Wall, never
}
