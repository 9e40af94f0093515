package state

import (
	"time"

	"gpurun/gpu"
)

// A Snapshot is what a person sees of a run at one moment. Its size is bounded,
// whatever the number of jobs. Its JSON is what a run answers to other commands.
type Snapshot struct {
	At       time.Time     `json:"time"`
	Total    int           `json:"total"`                       // selected jobs
	Counts   map[Phase]int `json:"counts"`                      // selected jobs by phase
	Running  []View        `json:"running"`                     // in start order; not nil
	Waiting  []View        `json:"waiting_for_retry,omitempty"` // backing off, ordered by next attempt; at most 20
	ETA      time.Duration `json:"eta_ns,omitempty"`            // how long the rest takes; 0 if unknown
	Head     string        `json:"head,omitempty"`              // the first ready job that found no GPU
	HeadID   int           `json:"-"`                           // in the batch, if there is a Head
	HeadWhy  string        `json:"head_waits_for,omitempty"`    // "needs 40 GiB; GPU 2: 71% busy, limit 30%"
	Kept     string        `json:"kept,omitempty"`              // "kept for X: 3 of 4"
	Rivals   []string      `json:"others_waiting,omitempty"`    // other runs of this host that wait for GPUs: "bob since 14:02"; at most 8
	Queues   []QueueView   `json:"queues,omitempty"`            // named queues; at most 50
	Draining string        `json:"draining,omitempty"`          // why no more jobs start
	Watching bool          `json:"watching,omitempty"`          // all is done: it waits for its files to change
	GPUStale time.Duration `json:"readings_age_ns,omitempty"`   // of the last reading, if it is too old to use
	GPUErr   string        `json:"no_readings,omitempty"`       // why there is no reading
	Alike    []Alike       `json:"alike,omitempty"`             // failures shared by several jobs, most frequent first; at most 5
	Failed   int           `json:"-"`                           // how many jobs have failed for good since the run began, those included that ran again
	Fresh    []FailedJob   `json:"-"`                           // the last of them, newest last; at most 1000
	Held     []Held        `json:"held,omitempty"`              // groups of jobs held by the breaker; at most 20
	GPUs     []Pressure    `json:"-"`                           // all that the run knows; nil without GPUs
	Silent   []string      `json:"silent_keepers,omitempty"`    // keepers that do not answer, one sentence each
}

// Held is a group of jobs held back because the first attempts of jobs like them
// all failed the same way.
type Held struct {
	Jobs     int    `json:"jobs"`     // held back
	First    string `json:"first"`    // the first job held back
	Attempts int    `json:"attempts"` // that failed the same way, each of another job
	Cause    string `json:"cause"`
	GPUs     []int  `json:"gpus,omitempty"` // those attempts ran on; nil for CPU jobs
	Log      string `json:"log,omitempty"`  // of one of those attempts
}

// A View is one job as a person sees it.
type View struct {
	Job     string        `json:"job"`
	ID      int           `json:"-"` // in the batch; -1 if the attempt's job is no longer in it
	UniID   string        `json:"uni_id,omitempty"`
	Attempt int           `json:"attempt"`
	Phase   Phase         `json:"state"`
	GPUs    []int         `json:"gpus"`                // not nil
	Memory  gpu.Bytes     `json:"memory_bytes"`        // granted on each GPU
	Close   gpu.Closeness `json:"closeness,omitempty"` // of several GPUs: what connects the farthest two, if known
	Used    gpu.Bytes     `json:"memory_used_bytes"`   // now, on all its GPUs together; -1 if unknown
	PID     int           `json:"pid,omitempty"`
	Host    string        `json:"host,omitempty"` // where it runs, if that is not this host
	Started time.Time     `json:"started,omitzero"`
	Takes   time.Duration `json:"takes_ns,omitempty"`    // what jobs like it took; 0 if unknown
	NextAt  time.Time     `json:"next_attempt,omitzero"` // while backing off
	Stop    string        `json:"stopping,omitempty"`    // why it is being stopped
	Stalled string        `json:"stalled,omitempty"`     // "no output for 31 min", once that is too long
	Log     string        `json:"log,omitempty"`
	Reason  string        `json:"queue_reason,omitempty"` // why it waits in the queue of a cluster; "" if unknown
	Expects time.Time     `json:"queue_expects,omitzero"` // when it starts, by the cluster's own estimate
	Note    string        `json:"note,omitempty"`         // "in the background: python 4711", or what else is to be said
}

// A QueueView is a named queue.
type QueueView struct {
	Name string `json:"name"`
	Busy string `json:"running,omitempty"` // the running job
	Left int    `json:"left"`              // jobs that have not ended
}
