package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/forecast"
	"gpurun/runner/sched"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

// An expectation is how long a job is expected to take.
type expectation struct {
	takes time.Duration
	by    string // source of the estimate, for display
}

// Sources of an expectation other than runs of similar jobs.
const (
	byBatch = "batch's median"
	byGuess = "a guess"
)

// expect estimates a job's duration: that of its seed group, or else the median of the batch, or
// else an hour, but never more than its timeout.
func (p *planning) expect(id int) expectation {
	takes, runs := p.Core.Expected(id)
	e := expectation{takes, byBatch}
	switch {
	case runs > 0:
		e.by = state.Count(runs, "run")
	case takes == 0:
		e = expectation{sched.Unknown, byGuess}
	}
	if limit := p.batch.Jobs[id].Spec.Timeout; limit > 0 {
		e.takes = min(e.takes, limit)
	}
	return e
}

// printLearned prints what is known about a job from runs of similar jobs.
func (p *planning) printLearned(w io.Writer, id int) {
	if m, runs := p.Core.Learned(id); runs > 0 {
		fmt.Fprintf(w, "          gpu memory %s, based on %s\n", m.Round(), state.Count(runs, "run"))
	}
	if e := p.expect(id); p.runs(id) && e.by != byGuess {
		fmt.Fprintf(w, "          takes about %s (%s)\n", terminal.Duration(e.takes), e.by)
	}
}

// printExpected prints the expected durations of the jobs that would run, if any are known.
func (p *planning) printExpected(w io.Writer) {
	var sum time.Duration
	jobs, known := 0, 0
	for id := range p.batch.Jobs {
		if !p.runs(id) {
			continue
		}
		e := p.expect(id)
		if e.by == byGuess {
			return
		}
		jobs++
		if e.by != byBatch {
			known++
		}
		sum += e.takes * time.Duration(p.batch.Jobs[id].Spec.Request.Min)
	}
	if known > 0 {
		fmt.Fprintf(w, "about %.2f GPU hours, estimated from runs similar to %d of these jobs; plan --simulate shows when each job would run\n", sum.Hours(), known)
	}
}

// A prediction is a forecast and the expectations that it is based on.
type prediction struct {
	*forecast.Forecast
	expected []expectation // by job
}

func (f *prediction) add(jobs []*schema.Job) {
	for _, s := range f.Spans {
		if s.Job >= 0 {
			jobs[s.Job].Plan.Simulate = &schema.Simulated{
				Start: s.Start.Seconds(), End: s.End.Seconds(), GPUs: append([]int{}, s.GPUs...), By: f.expected[s.Job].by,
			}
		}
	}
}

// forecast simulates the batch with p.Core, which it modifies.
func (p *planning) forecast() (*prediction, error) {
	if p.unread != nil {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "plan --simulate needs GPUs: " + p.unread.Error(), Hint: "pass --sim 4x24GiB to simulate them"}
	}
	f := &prediction{}
	for id := range p.batch.Jobs {
		f.expected = append(f.expected, p.expect(id))
	}
	f.Forecast = forecast.Simulate(forecast.Config{
		Batch: p.batch, Core: p.Core, Pool: p.pool, Now: runner.Now(), Seen: p.seen,
		Takes: func(id int) time.Duration { return f.expected[id].takes },
	})
	return f, nil
}

// gantt is the width of the bars in a forecast.
const gantt = 40

// printForecast prints when each job starts and ends, and how good the schedule is.
func (p *planning) printForecast(w io.Writer, f *prediction) {
	fmt.Fprintf(w, "simulated, from the current state of %s:\n", state.Count(f.Capacity, "GPU"))
	rows := [][]string{{"  JOB", "GPU", "START", "END", "BASED ON", "|" + strings.Repeat(" ", gantt) + "|"}}
	for _, s := range f.Spans {
		name, by := "an attempt of an earlier run", ""
		if s.Job >= 0 {
			name, by = p.batch.Jobs[s.Job].Name, f.expected[s.Job].by
		}
		start := "+" + terminal.Duration(s.Start)
		if s.Running {
			start = "runs"
		}
		rows = append(rows, []string{
			"  " + terminal.CleanText(name), cmp.Or(strings.TrimPrefix(gpu.List(s.GPUs), "GPU "), "CPU"),
			start, "+" + terminal.Duration(s.End), by, bar(s, f.Wall),
		})
	}
	table(w, rows)
	if f.Never > 0 {
		fmt.Fprintf(w, "%s would not start, because other users' jobs and processes never end in the simulation: %s\n", state.Count(f.Never, "job"), terminal.CleanText(f.Why))
	}
	bound := fmt.Sprintf("%.2f GPU hours on %s", f.Work.Hours(), state.Count(f.Capacity, "GPU"))
	if f.Longest >= f.Bound() {
		bound = "the longest chain of jobs"
	}
	fmt.Fprintf(w, "%s, %.2f GPU hours in %s; no order takes less than %s (%s)\n",
		state.Count(len(f.Spans), "job"), f.GPUTime.Hours(), terminal.Duration(f.Wall), terminal.Duration(f.Bound()), bound)
	p.printBasis(w, f)
}

// printBasis explains how reliable the forecast is.
func (p *planning) printBasis(w io.Writer, f *prediction) {
	jobs := map[string][]int{}
	for _, s := range f.Spans {
		if s.Job >= 0 {
			by := f.expected[s.Job].by
			jobs[by] = append(jobs[by], s.Job)
		}
	}
	if ids := jobs[byBatch]; ids != nil {
		fmt.Fprintf(w, "no runs similar to %s: estimated from the median of the batch, or the timeout if shorter\n", p.firstNames(ids))
	}
	if ids := jobs[byGuess]; ids != nil {
		fmt.Fprintf(w, "no estimate for %s: using %s, or the timeout if shorter\n", p.firstNames(ids), terminal.Duration(sched.Unknown))
	}
}

func (p *planning) firstNames(ids []int) string {
	return jobWords([]string{p.batch.Jobs[slices.Min(ids)].Name}, 1, len(ids))
}

// bar draws when a job runs, on the time scale of the whole batch.
func bar(s forecast.Span, wall time.Duration) string {
	at := func(t time.Duration) int { return int(int64(t) * gantt / max(int64(wall), 1)) }
	from, to := min(at(s.Start), gantt-1), max(at(s.End), at(s.Start)+1)
	to = min(to, gantt)
	return "|" + strings.Repeat(" ", from) + strings.Repeat("#", to-from) + strings.Repeat(" ", gantt-to) + "|"
}
