// Package state defines the states of a job and the record of what happened to it.
//
// A Fact is one event, and one line of the ledger. Everything that must survive a crash is a fact;
// the ledger, the terminal and the summary use the same facts. A History is the result of applying
// facts in order, live or replayed.
//
// The package is pure data: it reads no clock and no files.
//
// # Adding a field
//
// Add a field to state.Fact (state/fact.go), with the unit in its JSON name and a zero value that
// means unknown, as in older ledgers. At a start, acquire in runner/prepare.go sets it if the value
// is available only in the runner, else startFact in runner/sched/attempt.go. At an end, also add a
// field to state.End if the engine provides the value, else to sched.Ended (event.go), set by judge
// in runner/ended.go; attempt.end in runner/sched/ended.go copies it to the fact. If a later
// command needs it, copy it to state.Record in state/history.go; the index needs no change. If it
// can be long, encode in state/disk/ledger.go must shorten it. Increase state.Version only if it
// would be wrong for older versions of gpurun to ignore the field.
package state

import "strings"

// Phase is the state of a job in a run, or of an attempt.
type Phase string

const (
	Pending     Phase = "pending" // it has not started, or will start again
	Waiting     Phase = "waiting" // it failed and waits for its retry
	Queued      Phase = "queued"  // it waits in a cluster's queue
	Running     Phase = "running" // it is being started, or is running
	Succeeded   Phase = "succeeded"
	Failed      Phase = "failed"
	Timeout     Phase = "timeout"     // it exceeded its timeout
	OOM         Phase = "oom"         // out of GPU or host memory
	Stalled     Phase = "stalled"     // it made no progress for too long and was stopped
	Pruned      Phase = "pruned"      // it was worse than comparable jobs and was stopped
	Cancelled   Phase = "cancelled"   // a user cancelled this job
	Interrupted Phase = "interrupted" // its run stopped, or it had to release its GPUs
	Lost        Phase = "lost"        // how it ended is unknown
	Blocked     Phase = "blocked"     // a job that it needs failed
	UpToDate    Phase = "up_to_date"  // nothing to do
	NotNeeded   Phase = "not_needed"  // it runs only if a job that it needs fails, and none did
)

// Phases lists all phases in the order in which they are documented.
var Phases = []Phase{
	Pending, Waiting, Queued, Running, Succeeded, Failed, Timeout, OOM, Stalled, Pruned, Cancelled, Interrupted, Lost, Blocked, UpToDate, NotNeeded,
}

// String returns the phase in words: "up to date".
func (p Phase) String() string { return strings.ReplaceAll(string(p), "_", " ") }

// Ended reports whether this run is finished with a job in this phase.
func (p Phase) Ended() bool { return p != Pending && p != Waiting && p != Queued && p != Running }

// Bad reports whether the phase makes the run exit with 1.
func (p Phase) Bad() bool {
	switch p {
	case Failed, Timeout, OOM, Stalled, Lost, Blocked, Cancelled:
		return true
	}
	return false
}
