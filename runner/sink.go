// Package runner runs a batch. Its loop passes events (ends of attempts, GPU readings, signals,
// requests, a timer) to the scheduler one at a time, and carries out the resulting actions in
// order: append facts, notify sinks, call the engine.
//
// Only the loop's goroutine uses the scheduler. Slow work (preparing a start, reading GPUs,
// examining files) happens in other goroutines, which do not touch the loop's state. When they
// finish, they pass the loop a function to call.
package runner

import (
	"io/fs"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Sink receives all facts, in the order of the ledger, and snapshots of the run. It is called
// from the loop's goroutine and must not block.
type Sink interface {
	// Fact receives a recorded fact; job is its ID in the batch, or -1.
	Fact(job int, f state.Fact)
	// Snapshot receives the state of the run, a few times a second while it changes, or else once a
	// second. The status must not be modified.
	Snapshot(s *schema.Status)
}

// A Ledger stores facts and attempt folders. *disk.State implements it.
type Ledger interface {
	// Append writes facts to the ledger, and returns the number written: all of them, unless it
	// fails.
	Append(file int, facts ...state.Fact) (n int, err error)
	// Failure returns why the state is no longer reliable, or nil.
	Failure() error
	NewAttempt(file int, apart bool) (uniID string, slot state.Slot, err error)
	AttemptDir(file int, uniID string) string
	RemoveAttempt(file int, uniID string)
	LogPath(file int, job string) string
	// Began returns when the first run of a job file began.
	Began(file int) time.Time
	CurvePath(file int, uniID string) string
	// Watched returns until when runs read the GPUs from a time on without a gap, or that time.
	Watched(since time.Time) time.Time
	// ConfigCopy returns the lock file for a config file that jobs of a job file use, and the most
	// permissive mode that the config file may have.
	ConfigCopy(file int, path string) (lock string, mode fs.FileMode)
}
