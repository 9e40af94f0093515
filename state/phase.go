// Package state says what can be true of a job, and what has happened to it.
//
// A Fact is one thing that happened, and one line of the ledger. Facts are the
// only way in which anything that must outlive a crash is said: the ledger, the
// terminal and the summary see the same ones. A History is what facts come to
// when they are applied in order, live or replayed. A Snapshot is what a person
// sees of a batch at one moment.
//
// The package is pure data: it reads no clock and no file.
package state

// Phase is where a job of this run is.
type Phase string

const (
	Pending     Phase = "pending"     // not ready, or ready and without its GPU yet
	Waiting     Phase = "waiting"     // for its retry
	Running     Phase = "running"     // from the decision to start on
	Succeeded   Phase = "succeeded"   //
	Failed      Phase = "failed"      //
	Timeout     Phase = "timeout"     //
	OOM         Phase = "oom"         // out of GPU or host memory
	Cancelled   Phase = "cancelled"   // by a person's stop
	Interrupted Phase = "interrupted" // the run was stopped
	Lost        Phase = "lost"        // gone without a status
	Blocked     Phase = "blocked"     // a need failed
	UpToDate    Phase = "up to date"  // nothing to do
	NotNeeded   Phase = "not needed"  // when: failure, and no need has failed
)

// Ended says whether nothing more happens to a job in this phase in this run.
func (p Phase) Ended() bool { return p != Pending && p != Waiting && p != Running }

// Bad says whether the phase is an end that makes a run exit with 1.
func (p Phase) Bad() bool {
	switch p {
	case Failed, Timeout, OOM, Lost, Blocked, Cancelled:
		return true
	}
	return false
}
