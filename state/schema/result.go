package schema

import (
	"time"

	"gpurun/state"
)

// A Result is the outcome of a run.
type Result struct {
	Final    *Status
	Failures []state.FailedJob // one per error, in batch order; only the first few, but Final counts all jobs
	Demands  []state.Demand    // jobs that used far more or less GPU memory than requested
	Warnings []string          // for the summary
	Wall     time.Duration
	GPUHours float64
	Stopped  string       // the signal or command that stopped the run, such as "SIGTERM", or ""
	StateErr error        // why the ledger could not be written, or nil
	GaveUp   bool         // the run stopped waiting for a GPU
	Lost     []state.Loss // GPU time lost since the last start
}
