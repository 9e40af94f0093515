// Package runner makes a batch happen: its loop feeds what happens outside (ends
// of attempts, GPU readings, signals, requests, one timer) to the scheduler, one
// event at a time, and does what the scheduler answers, in order: append the
// fact, tell the sinks, ask the engine.
//
// One goroutine owns the scheduler. Everything that may take time (preparing a
// start, reading GPUs, looking at what an attempt has left) happens in goroutines
// that only send an event back.
package runner

import "gpurun/state"

// A Sink is told what happens, in the ledger's order. It is called from the
// loop's goroutine and must not block.
type Sink interface {
	// Fact shows a fact that the ledger has; job is its ID in the batch, or -1.
	Fact(job int, f state.Fact)
	// Snapshot shows where the run is: a few times a second while something
	// changes, else once a second.
	Snapshot(s state.Snapshot)
}

// A Ledger is where facts are kept and attempts have their folders; *disk.State is one.
type Ledger interface {
	// AppendAll says how many of the facts are in the ledger, all unless it fails.
	AppendAll(file int, facts ...state.Fact) (n int, err error)
	// Failure returns why the state cannot be relied on any more, or nil.
	Failure() error
	NewAttempt(file int) (uniID, dir string, err error)
	AttemptDir(file int, uniID string) string
	RemoveAttempt(file int, uniID string)
	LogPath(file int, job string) string
}
