package schema

import (
	"fmt"

	"gpurun/state"
)

// Outcome is the overall result of a batch. It depends on the counts of jobs: a successful
// last run does not hide jobs that failed in an earlier one.
type Outcome struct {
	Code   OutcomeCode `json:"code"`
	Failed int         `json:"failed"` // jobs that failed, timed out, stalled, ran out of memory, were lost or are blocked
	Text   string      `json:"text"`
}

// OutcomeCode is the outcome in one word. While a run is alive, it is the run's phase, or silent.
type OutcomeCode string

// These are the outcomes of a batch without a live run.
const (
	OutcomeNone       OutcomeCode = "never_ran"
	OutcomeFailed     OutcomeCode = "failed"     // some jobs failed
	OutcomeKilled     OutcomeCode = "killed"     // jobs remain, and the last run did not record its end
	OutcomeStopped    OutcomeCode = "stopped"    // jobs remain because a user or a signal ended the last run
	OutcomeUnfinished OutcomeCode = "unfinished" // jobs remain for another reason
	OutcomeDone       OutcomeCode = "done"
	OutcomeSilent     OutcomeCode = "silent" // a run is alive but does not respond
)

// OutcomeOf returns the outcome of a batch from its live or last run, which may be nil, and the
// counts of its jobs.
func OutcomeOf(run *Run, counts map[state.Phase]int) Outcome {
	t := TallyOf(counts, true)
	o := Outcome{Failed: t.Failed + counts[state.Blocked]}
	left := t.Total - t.Done - o.Failed
	switch {
	case run == nil:
		o.Code, o.Text = OutcomeNone, "never ran"
	case run.Alive && run.Phase == nil:
		o.Code, o.Text = OutcomeSilent, "does not answer"
	case run.Alive:
		o.Code = OutcomeCode(*run.Phase)
	case o.Failed > 0:
		o.Code = OutcomeFailed
	case left == 0:
		o.Code = OutcomeDone
	case run.Exit == nil:
		o.Code = OutcomeKilled
	case *run.Exit == 130 || *run.Exit == 143:
		o.Code = OutcomeStopped
	default:
		o.Code = OutcomeUnfinished
	}
	if o.Text == "" {
		o.Text = string(o.Code)
	}
	if run != nil && run.Alive && t.Failed > 0 {
		o.Text += fmt.Sprintf(", %d failed", t.Failed)
	}
	return o
}
