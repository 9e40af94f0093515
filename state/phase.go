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
// means unknown, as in older ledgers. Set the field of a start in acquire (runner/prepare.go) if only
// the runner has the value, else in startFact (runner/sched/attempt.go). For a field of an end, also
// add a field to state.End if the engine provides the value, else one to sched.Ended (event.go) that
// judge (runner/ended.go) sets; copy it to the fact in attempt.end (runner/sched/ended.go). If a
// later command needs the value, copy it to state.Record in state/history.go; the index needs no
// change. If the value can be long, encode (state/disk/ledger.go) must shorten it. Increase
// state.Version only if it would be wrong for older versions of gpurun to ignore the field.
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
