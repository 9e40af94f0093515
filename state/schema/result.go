package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A Result is the outcome of a run.
type Result struct {
	Final    *Status
	Failures []FailedJob // one per error, most frequent first; only the first few, but Final counts all jobs
	Demands  []Demand    // jobs that used far more or less GPU memory than requested
	Warnings []string    // for the summary
	Wall     time.Duration
	GPUHours float64
	Stopped  string       // the signal or command that stopped the run, such as "SIGTERM", or ""
	StateErr error        // why the ledger could not be written, or nil
	GaveUp   bool         // the run stopped waiting for a GPU
	Lost     []state.Loss // GPU time lost since the last start
}

// A Demand is a job that used far more or far less GPU memory than it requested.
type Demand struct {
	Job         string
	Asked, Peak gpu.Bytes // on each GPU
	Readings    int       // number of readings behind Peak
}

// TooMuch reports whether enough readings show that the request is above both 1.5 times the use and
// the advisable request.
func (d Demand) TooMuch() bool {
	return 2*d.Asked > 3*d.Peak && d.Asked > d.Peak.Ample() && d.Readings >= 10
}

// A FailedJob is a job that did not succeed, as reported to users. It represents all jobs that
// failed with the same error.
type FailedJob struct {
	Job     string
	ID      int        // in the batch; only in the Fresh list of a live run
	Start   state.Fact // start of its last attempt, with its time and GPUs; zero if it never started
	End     state.Fact
	Log     string
	Tail    []string // last lines of this attempt's part of the log, verbatim
	Alike   Alike    // the group of jobs that failed with the same error, which may be only this one
	Blocked int      // number of jobs that did not run because this job, or one of its group, failed
	Note    string   // another remark about its end, or ""
}
