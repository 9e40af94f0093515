// Package runner runs a batch. Its loop feeds events (ends of attempts, GPU readings,
// signals, requests, a timer) to the scheduler one at a time, and carries out the
// actions it returns, in order: append facts, tell the sinks, ask the engine.
//
// One goroutine owns the scheduler. Everything that may take time (preparing a
// start, reading GPUs, examining what an attempt left) happens in goroutines that
// touch nothing of the loop's: they hand it a function to call when they are done.
package runner

import (
	"io/fs"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Sink receives everything that happens, in the ledger's order. It is called from
// the loop's goroutine and must not block.
type Sink interface {
	// Fact receives a recorded fact; job is its ID in the batch, or -1.
	Fact(job int, f state.Fact)
	// Snapshot receives the state of the run, a few times a second while something
	// changes, else once a second. Nobody changes it.
	Snapshot(s *schema.Status)
}

// A Ledger stores facts and attempt folders; *disk.State is one.
type Ledger interface {
	// Append returns how many of the facts are in the ledger: all, unless it fails.
	Append(file int, facts ...state.Fact) (n int, err error)
	// Failure returns why the state is no longer reliable, or nil.
	Failure() error
	NewAttempt(file int, apart bool) (uniID string, slot state.Slot, err error)
	AttemptDir(file int, uniID string) string
	RemoveAttempt(file int, uniID string)
	LogPath(file int, job string) string
	CurvePath(file int, uniID string) string
	// ConfigCopy returns the lock of a config file that jobs of a file get, and what its mode has at most.
	ConfigCopy(file int, path string) (lock string, mode fs.FileMode)
}
