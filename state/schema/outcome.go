package schema

import (
	"fmt"

	"gpurun/state"
)

// Outcome is how a batch is as a whole. It goes by the counts of its jobs: a last run that ended
// well does not make up for jobs that failed in an earlier one.
type Outcome struct {
	Code   OutcomeCode `json:"code"`
	Failed int         `json:"failed"` // jobs that failed, timed out, stalled, ran out of memory, were lost or are blocked
	Text   string      `json:"text"`
}

// OutcomeCode is that in a word. While a run is alive, it is the run's phase, or silent.
type OutcomeCode string

// The outcomes of a batch of which no run is alive.
const (
	OutcomeNone       OutcomeCode = "never_ran"
	OutcomeFailed     OutcomeCode = "failed"     // some jobs failed
	OutcomeKilled     OutcomeCode = "killed"     // jobs are left, and the last run recorded no end
	OutcomeStopped    OutcomeCode = "stopped"    // jobs are left: a person or a signal ended the last run
	OutcomeUnfinished OutcomeCode = "unfinished" // jobs are left for another reason
	OutcomeDone       OutcomeCode = "done"
	OutcomeSilent     OutcomeCode = "silent" // a run is alive and does not answer
)

// OutcomeOf returns the outcome of a batch by its live or last run, which may be nil, and the
// counts of its jobs.
func OutcomeOf(run *Run, counts map[state.Phase]int) Outcome {
	o, left := Outcome{}, 0
	for s, n := range counts {
		switch s {
		case state.Succeeded, state.UpToDate, state.NotNeeded, state.Pruned:
		case state.Failed, state.Timeout, state.OOM, state.Stalled, state.Lost, state.Blocked:
			o.Failed += n
		default:
			left += n
		}
	}
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
	if run != nil && run.Alive && o.Failed > 0 {
		o.Text += fmt.Sprintf(", %d failed", o.Failed)
	}
	return o
}
