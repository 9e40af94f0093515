package schema

import (
	"time"

	"gpurun/state"
)

// A Result is the outcome of a run.
type Result struct {
	Final    *Status
	Failures []state.FailedJob // one for all jobs that failed with the same error, in batch order; the first few, but Final counts all
	Demands  []state.Demand    // jobs that used far more or less GPU memory than requested
	Warnings []string          // for the summary
	Wall     time.Duration
	GPUHours float64
	Stopped  string       // what stopped the whole run, "SIGTERM", or ""
	StateErr error        // why the ledger could not be written, or nil
	GaveUp   bool         // gave up waiting for a GPU
	Lost     []state.Loss // GPU time lost since the last start
}
