package runner

import (
	"fmt"
	"strings"
	"time"

	"gpurun/runner/sched"
	"gpurun/state"
)

// Result says how a run went.
type Result struct {
	Final    state.Snapshot
	Failures []Failure     // one for all jobs that failed alike, in the order of the batch; at most maxFailures, Final counts all
	Sizes    []Size        // jobs that took far more or less GPU memory than they asked for
	Warnings []string      // for the summary
	Wall     time.Duration // of this run
	GPUHours float64
	Stopped  string // what stopped the whole run, "SIGTERM", or ""
	StateErr error  // why the ledger could not be written, or nil
	GaveUp   bool   // no GPU in time
}

// A Size is a job whose memory request is far off.
type Size struct {
	Job      string
	Asked    int64 // bytes, on each GPU
	Peak     int64 // bytes
	Readings int   // that Peak is the highest of
}

// tally gathers, fact by fact, what the summary says.
type tally struct {
	began    time.Time
	gpus     map[string]state.Fact // starts of live attempts, by uni_id
	ends     map[int]end           // last bad end of each job
	sizes    map[string]Size       // by job family: the biggest peak seen
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
	t.sizes = map[string]Size{}
}

func (t *tally) stopped(s sched.Stop) {
	if s.All && t.stop == "" {
		t.stop = s.Why
	}
}

// started takes in an attempt that is live from now on.
func (t *tally) started(f state.Fact) {
	t.gpus[f.UniID] = f
	t.hours.started(f)
}

// fact takes in what the summary needs of a fact.
func (t *tally) fact(l *loop, a sched.Record) {
	f := a.Fact
	switch f.Kind {
	case state.KindStart:
		t.started(f)
	case state.KindEnd:
		start := t.gpus[f.UniID]
		delete(t.gpus, f.UniID)
		t.hours.ended(start, f)
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
		t.warnings = append(t.warnings, "and more warnings like these")
	}
}

// enough is how many readings must tell of a job before it is advised to ask for less.
const enough = 10

// size remembers a job that asked for more than twice what it took, or took more
// than it asked for, which one reading is enough for.
func (t *tally) size(f, start state.Fact) {
	if f.State != state.Succeeded || f.PeakMemory <= 0 || start.Memory <= 0 || len(start.GPUs) == 0 {
		return
	}
	peak := f.PeakMemory
	less := 2*peak < start.Memory && f.PeakReadings >= enough
	if peak <= start.Memory && !less || len(t.sizes) >= maxFailures {
		return
	}
	t.sizes[f.Job] = Size{Job: f.Job, Asked: int64(start.Memory), Peak: int64(peak), Readings: f.PeakReadings}
}

// result is what Run returns.
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
			r.Sizes = append(r.Sizes, s)
		}
	}
	return r
}

// lastLines are the last n lines of b that say anything.
func lastLines(b []byte, n int) []string {
	lines := strings.Split(strings.TrimRight(string(b), "\n\r \t"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-n):]
}
