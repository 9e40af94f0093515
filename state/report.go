package state

import (
	"gpurun/gpu"
)

// A FailedJob is a job that did not succeed, as a person sees it. It represents all that
// failed with the same error.
type FailedJob struct {
	Job     string
	ID      int  // in the batch; of the fresh ones of a live run alone
	Start   Fact // of its last attempt: when, and on which GPUs; zero if it never started
	End     Fact
	Log     string
	Tail    []string // last lines of this attempt's part of the log, verbatim
	Alike   Alike    // if more than one job failed with the same error, else of one
	Blocked int      // jobs that did not run because of it or of those that failed with the same error
	Note    string   // what else to say about its end, or ""
}

// A Demand describes a job that used far more or less GPU memory than it asked for.
type Demand struct {
	Job         string
	Asked, Peak gpu.Bytes // on each GPU
	Readings    int       // how many Peak is the highest of
}
