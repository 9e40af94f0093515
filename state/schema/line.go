package schema

import (
	"fmt"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Tally counts the jobs of a batch in five groups.
type Tally struct {
	Total   int `json:"total"`
	Done    int `json:"done"`        // succeeded, up_to_date, not_needed or pruned
	Pruned  int `json:"pruned"`      // done jobs that were pruned, or need a pruned job
	Failed  int `json:"failed"`      // failed, timeout, oom, stalled or lost
	Running int `json:"running"`     //
	Stalled int `json:"stalled"`     // running jobs that have stalled
	Waiting int `json:"waiting"`     // pending, waiting or queued while a run is alive
	NotRun  int `json:"did_not_run"` // blocked, cancelled or interrupted, and all remaining jobs if no run is alive
}

// TallyOf adds up counts of jobs. alive means that a live run can still start the remaining jobs.
func TallyOf(counts map[state.Phase]int, alive bool) (t Tally) {
	for p, n := range counts {
		t.Total += n
		switch p {
		case state.Succeeded, state.UpToDate, state.NotNeeded, state.Pruned:
			if t.Done += n; p == state.Pruned {
				t.Pruned = n
			}
		case state.Failed, state.Timeout, state.OOM, state.Stalled, state.Lost:
			t.Failed += n
		case state.Running:
			t.Running += n
		case state.Blocked, state.Cancelled, state.Interrupted:
			t.NotRun += n
		default:
			t.Waiting += n
		}
	}
	if !alive {
		t.NotRun, t.Waiting = t.NotRun+t.Waiting, 0
	}
	return t
}

// String returns "38 of 60 done, 10 failed, 6 running (1 stalled), 5 waiting, 1 did not run".
func (t Tally) String() string { return t.words("", "waiting") }

// words is like String, but inserts causes after "failed" and replaces "waiting" with wait.
func (t Tally) words(causes, wait string) string {
	s := fmt.Sprintf("%d of %d done", t.Done, t.Total)
	if t.Pruned > 0 {
		s += fmt.Sprintf(" (%d pruned)", t.Pruned)
	}
	for _, x := range []struct {
		n    int
		word string
	}{{t.Failed, "failed" + causes}, {t.Running, "running"}, {t.Waiting, wait}, {t.NotRun, "did not run"}} {
		if x.n == 0 {
			continue
		}
		if s += fmt.Sprintf(", %d %s", x.n, x.word); x.word == "running" && t.Stalled > 0 {
			s += fmt.Sprintf(" (%d stalled)", t.Stalled)
		}
	}
	return s
}

// End is the expected end of a live run.
type End struct {
	From    *time.Time `json:"from"`    // null if unknown
	To      *time.Time `json:"to"`      // the same as `from`, unless the end is uncertain
	Unknown *string    `json:"unknown"` // why the end is unknown
	Without []string   `json:"without"` // jobs that the estimate leaves out: stalled jobs, and jobs that cannot start because of them
}

// words returns "done 08:51–08:56".
func (e *End) words(now time.Time, verb string) string {
	if e.From == nil {
		return "end unknown: " + Value(e.Unknown)
	}
	s := verb + " " + gpu.Clock(*e.From, now)
	if to := gpu.Clock(*e.To, now); !strings.HasSuffix(s, to) {
		s += "–" + to
	}
	switch n := len(e.Without); n {
	case 0:
	case 1:
		s += " (excluding " + e.Without[0] + ")"
	default:
		s += fmt.Sprintf(" (excluding %s and %d more)", e.Without[0], n-1)
	}
	return s
}

// Sum sets the outcome, the tally and the state line, which follow from the rest: "running: 38 of
// 60 done, 6 running, 16 waiting · this batch uses all 6 usable GPUs · done 08:51–08:56".
func (s *Status) Sum() {
	s.Outcome = OutcomeOf(s.Run, s.Counts)
	alive := s.Run != nil && s.Run.Alive
	s.Tally = TallyOf(s.Counts, alive)
	s.Tally.Stalled = len(Value(s.Live).Stalled)
	word, _, _ := strings.Cut(s.Outcome.Text, ",") // without the number of failed jobs
	causes, wait := "", "waiting"
	if n := len(s.Alike); n > 0 && !alive {
		causes = " (" + state.Count(n, "cause") + ")"
	}
	ending := s.Is(RunDraining) || s.Is(RunStopping)
	if ending {
		wait = "will not start"
	}
	parts := []string{word + ": " + s.Tally.words(causes, wait)}
	switch {
	case alive && s.Live != nil:
		if s.Live.Bottleneck != nil {
			parts = append(parts, *s.Live.Bottleneck)
		}
		if e := s.Live.End; e != nil && !s.Is(RunPaused) && s.Tally.Running+s.Tally.Waiting > 0 {
			parts = append(parts, e.words(s.Now, map[bool]string{true: "ends about", false: "done"}[ending]))
		}
	case s.Run != nil && s.Run.Started != nil && s.Run.Ended != nil:
		took := state.Spell(s.Run.Ended.Sub(*s.Run.Started))
		if hours := Value(s.Run.GPUSeconds) / 3600; hours >= 0.005 {
			took += fmt.Sprintf(", %.2f GPU hours", hours)
		}
		parts = append(parts, took)
	}
	s.Line = strings.Join(parts, " · ")
}
