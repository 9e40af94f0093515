package runner

import (
	"fmt"
	"strings"
	"time"

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
	began    time.Time
	gpus     map[string]state.Fact   // start facts of live attempts, by uni_id
	ends     map[int]end             // last bad end of each job
	sizes    map[string]state.Demand // by job name
	warnings []string
	hours    hours
	stop     string
	stateErr error
	gaveUp   bool
}

type end struct {
	fact  state.Fact
	start state.Fact
	out   logPart
}

func (t *tally) begin(c Config) {
	t.began = c.Now().Wall
	t.gpus = map[string]state.Fact{}
	t.ends = map[int]end{}
	t.sizes = map[string]state.Demand{}
}

func (t *tally) stopped(s sched.StopRequested) {
	if s.All && t.stop == "" {
		t.stop = s.Why
	}
}

// started adds an attempt that is now live.
func (t *tally) started(f state.Fact) {
	t.gpus[f.UniID] = f
	t.hours.started(f)
}

// fact collects what the summary needs from a fact.
func (t *tally) fact(l *loop, a sched.Record) {
	f := a.Fact
	switch f.Kind {
	case state.KindStart:
		t.started(f)
	case state.KindEnd:
		start := t.gpus[f.UniID]
		delete(t.gpus, f.UniID)
		t.hours.ended(start, f, l.Now().Boot)
		if a.Job < 0 {
			return
		}
		delete(t.ends, a.Job)
		if f.State != state.Succeeded {
			e := end{fact: f, start: start, out: logPart{stdout: start.Log, stderr: start.Log, fromStdout: -1, fromStderr: -1}}
			if at := l.live[f.UniID]; at != nil {
				e.out = at.out
			}
			t.ends[a.Job] = e
		}
		t.size(f, start)
	}
}

func (t *tally) note(format string, args ...any) {
	switch {
	case len(t.warnings) < maxFailures:
		t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
	case len(t.warnings) == maxFailures:
		t.warnings = append(t.warnings, "more warnings were omitted; see run.log")
	}
}

// enough is how many readings it takes before a job is advised to request less memory.
const enough = 10

// size records a job that requested more than twice what it used, or used more than
// it requested; the latter takes only one reading to know.
func (t *tally) size(f, start state.Fact) {
	if f.State != state.Succeeded || f.PeakMemory <= 0 || start.Memory <= 0 || len(start.GPUs) == 0 {
		return
	}
	peak := f.PeakMemory
	less := 2*peak < start.Memory && f.PeakReadings >= enough
	if peak <= start.Memory && !less || len(t.sizes) >= maxFailures {
		return
	}
	t.sizes[f.Job] = state.Demand{Job: f.Job, Asked: start.Memory, Peak: peak, Readings: f.PeakReadings}
}

// result builds what Run returns.
func (l *loop) result() Result {
	l.save()
	now := l.Now()
	r := Result{
		Final: l.Core.Snapshot(now), Wall: now.Wall.Sub(l.out.began), GPUHours: l.out.hours.count(),
		Stopped: l.out.stop, StateErr: l.out.stateErr, GaveUp: l.out.gaveUp, Warnings: l.out.warnings,
	}
	for _, s := range l.Sinks {
		s.Snapshot(r.Final)
	}
	r.Failures = Failures(l.Batch, l.Core.Phase, l.lastEnd)
	for id := range l.Batch.Jobs {
		if s, ok := l.out.sizes[l.Batch.Jobs[id].Name]; ok {
			r.Demands = append(r.Demands, s)
		}
	}
	return r
}

// lastLines returns the last n lines of b, not counting trailing blank ones.
func lastLines(b []byte, n int) []string {
	lines := strings.Split(strings.TrimRight(string(b), "\n\r \t"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-n):]
}
