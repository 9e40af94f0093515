package state

import (
	"gpurun/gpu"
)

// A FailedJob is a job that did not succeed, as reported to users. It stands for all jobs that
// failed with the same error.
type FailedJob struct {
	Job     string
	ID      int  // in the batch; only in the Fresh list of a live run
	Start   Fact // start of its last attempt, with its time and GPUs; zero if it never started
	End     Fact
	Log     string
	Tail    []string // last lines of this attempt's part of the log, verbatim
	Alike   Alike    // the group of jobs that failed with the same error, which may be only this one
	Blocked int      // jobs that did not run because it, or a job of its group, failed
	Note    string   // another remark about its end, or ""
}

// A Demand is a job that used far more or far less GPU memory than it requested.
type Demand struct {
	Job         string
	Asked, Peak gpu.Bytes // on each GPU
	Readings    int       // number of readings behind Peak
}
