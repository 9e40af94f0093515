package state

import (
	"time"

	"gpurun/gpu"
)

// A Snapshot is what a person sees of a run at one moment. Its size is bounded,
// whatever the number of jobs.
type Snapshot struct {
	At       time.Time
	Total    int           // selected jobs
	Counts   map[Phase]int // selected jobs by phase
	Running  []View        // in start order
	Waiting  []View        // backing off, ordered by next attempt; at most 20
	Head     *View         // the first ready job that found no GPU
	HeadWhy  string        // why Head waits, "needs 40 GiB; GPU 2: 71% busy, limit 30%"
	Kept     string        // "kept for X: 3 of 4", or ""
	Queues   []QueueView   // named queues; at most 50
	Draining string        // why no more jobs start, or ""
	GPUStale time.Duration // age of the last reading if it is too old to use; else 0
	GPUErr   string        // why there is no reading
	Alike    []Alike       // failures shared by several jobs, most frequent first; at most 5
	Held     []Held        // job families held by the breaker; at most 20
	Silent   []string      // keepers that do not answer, one sentence each
}

// Held is a family of jobs held back because the first attempts of jobs like them
// all failed the same way.
type Held struct {
	Jobs     int    // held back
	First    string // the first job held back
	Attempts int    // that failed the same way
	Cause    string
	GPUs     []int  // those attempts ran on; nil for CPU jobs
	Log      string // of one of those attempts
}

// A View is one job as a person sees it.
type View struct {
	Job     string
	ID      int // in the batch; -1 if the attempt's job is no longer in it
	UniID   string
	Attempt int
	Phase   Phase
	Started time.Time
	PID     int
	GPUs    []int
	Memory  gpu.Bytes // granted on each GPU
	Used    gpu.Bytes // in use now on all its GPUs together; -1 if unknown
	Log     string
	NextAt  time.Time // next attempt, while backing off
	Stop    string    // why it is being stopped, or ""

	Background string // the process that keeps it running after its commands, "python 4711", or ""
}

// A QueueView is a named queue.
type QueueView struct {
	Name string
	Busy string // the running job, or ""
	Left int    // jobs that have not ended
}
