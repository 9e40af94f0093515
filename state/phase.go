// Package state defines the states of a job and the record of what happened to it.
//
// A Fact is one thing that happened, and one line of the ledger. Everything that
// must survive a crash is a fact; the ledger, the terminal and the summary all see
// the same ones. A History is the result of applying facts in order, live or
// replayed. A Snapshot is what a person sees of a batch at one moment.
//
// The package is pure data: it reads no clock and no files.
//
// # Another field
//
// It is a field of state.Fact (state/fact.go), with the unit in its JSON name and a
// zero value that means unknown, as in older ledgers. At a start, acquire in runner/prepare.go
// sets it if the edge knows it, or startFact in runner/sched/attempt.go if the core does. At an
// end it is also a field of state.End if the engine knows it, else of sched.Ended (event.go), set
// by judge in runner/ended.go; attempt.end in runner/sched/ended.go puts it into the fact. What a
// later command asks for is copied to state.Record in state/history.go; the index needs
// nothing. If it can be long, encode in state/disk/ledger.go must shorten it. state.Version
// grows only if older gpuruns must not ignore it.
package state

import "strings"

// Phase is the state of a job in a run, or of an attempt.
type Phase string

// The phases.
const (
	Pending     Phase = "pending"     // it has not started, or will be started again
	Waiting     Phase = "waiting"     // it failed and waits for its retry
	Queued      Phase = "queued"      // it waits in the queue of a cluster
	Running     Phase = "running"     // from the decision to start it
	Succeeded   Phase = "succeeded"   //
	Failed      Phase = "failed"      //
	Timeout     Phase = "timeout"     //
	OOM         Phase = "oom"         // out of GPU or host memory
	Stalled     Phase = "stalled"     // it did nothing for too long, and was stopped for that
	Pruned      Phase = "pruned"      // it was behind others that differ in a few parameters, and was stopped for that
	Cancelled   Phase = "cancelled"   // by a person, this job alone
	Interrupted Phase = "interrupted" // its run stopped, or it had to leave its GPUs
	Lost        Phase = "lost"        // how it ended is unknown
	Blocked     Phase = "blocked"     // a job that it needs failed
	UpToDate    Phase = "up_to_date"  // nothing to do
	NotNeeded   Phase = "not_needed"  // it runs only if a job that it needs fails, and none did
)

// Phases are all phases, in the order of their documentation.
var Phases = []Phase{
	Pending, Waiting, Queued, Running, Succeeded, Failed, Timeout, OOM, Stalled, Pruned, Cancelled, Interrupted, Lost, Blocked, UpToDate, NotNeeded,
}

// String returns the phase in words: "up to date".
func (p Phase) String() string { return strings.ReplaceAll(string(p), "_", " ") }

// Ended reports whether a job in this phase is finished as far as this run goes.
func (p Phase) Ended() bool { return p != Pending && p != Waiting && p != Queued && p != Running }

// Bad reports whether the phase makes the run exit with 1.
func (p Phase) Bad() bool {
	switch p {
	case Failed, Timeout, OOM, Stalled, Lost, Blocked, Cancelled:
		return true
	}
	return false
}
