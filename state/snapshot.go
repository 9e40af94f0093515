package state

import (
	"time"

	"gpurun/gpu"
)

// A Snapshot is what a person sees of a run at one moment. Its size does not
// grow with the number of jobs.
type Snapshot struct {
	At       time.Time
	Total    int           // jobs of the batch that are selected
	Counts   map[Phase]int // every selected job is in one of them
	Running  []View        // in order of their start
	Waiting  []View        // backing off, by time of the next attempt; at most 20
	Head     *View         // the first job that is ready and found no GPU
	HeadWhy  string        // why it waits, "needs 40 GiB; GPU 2: 71% busy, limit 30%"
	Kept     string        // "kept for X: 3 of 4", or ""
	Queues   []QueueView   // named queues; at most 50
	Draining string        // why nothing more starts, or ""
	GPUStale time.Duration // age of the last reading when it is too old to go by; 0 when fine
	GPUErr   string        // why there is none
	Alike    []Alike       // failures of more than one job, the most frequent first; at most 5
	Held     []Held        // families that the breaker holds; at most 20
	Silent   []string      // keepers that do not answer, each in a sentence
}

// Held are jobs that do not start, because the first attempts of jobs like them
// failed alike.
type Held struct {
	Jobs     int    // that do not start
	First    string // the first of them
	Attempts int    // that failed alike
	Cause    string
	GPUs     []int  // that these were on; nil for CPU jobs
	Log      string // of one of them
}

// A View is one job as a person sees it.
type View struct {
	Job     string
	ID      int // in the batch; -1 for an attempt of a job that is no longer in it
	UniID   string
	Attempt int
	Phase   Phase
	Started time.Time
	PID     int
	GPUs    []int
	Memory  gpu.Bytes // granted on each
	Used    gpu.Bytes // in use now on all its GPUs together; -1 unknown
	Log     string
	NextAt  time.Time // of the next attempt, while it backs off
	Stop    string    // why it is being stopped, or ""

	Background string // the process that it goes on as after its commands, "python 4711", or ""
}

// A QueueView is a named queue.
type QueueView struct {
	Name string
	Busy string // job that runs, or ""
	Left int    // jobs not yet ended
}
