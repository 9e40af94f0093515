package schema

import (
	"gpurun/gpu"
	"gpurun/state"
	"slices"
)

// Live is what a live run knows of itself beyond its jobs.
type Live struct {
	Next       *Next    `json:"next"`                 // the first job in line, if something keeps it from starting
	Stalled    []string `json:"stalled"`              // running jobs that have done nothing for too long
	Bottleneck *string  `json:"bottleneck"`           // why the next job in line waits, in short
	End        *End     `json:"end"`                  // when all will be done; null if nothing is left
	Kept       *string  `json:"kept"`                 // how many GPUs are kept for it so far
	Others     []string `json:"others_waiting"`       // other runs of this host that wait for GPUs: at most 8
	Queues     []Lane   `json:"queues"`               // named queues that have work left: at most 50
	Held       []Held   `json:"held"`                 // jobs held back because jobs like them failed with the same error: at most 20 groups
	Draining   *string  `json:"draining"`             // why nothing more starts
	Silent     []string `json:"silent_keepers"`       // keepers that do not answer, a sentence each
	Unread     *string  `json:"no_readings"`          // why the GPUs cannot be read
	Stale      *float64 `json:"readings_age_seconds"` // of the last reading of the GPUs, if it is too old to use

	Failed int               `json:"-"` // how many jobs have failed for good since the run began, those included that ran again
	Fresh  []state.FailedJob `json:"-"` // the last of them, newest last; at most 1000
	GPUs   []state.Pressure  `json:"-"` // all that the run knows
}

// Next is the job that starts next, once it can.
type Next struct {
	Job  string `json:"job"`
	Text string `json:"text"` // what it waits for
}

// Lane is a named queue.
type Lane struct {
	Name string  `json:"name"`
	Busy *string `json:"running"` // its running job
	Left int     `json:"left"`    // jobs that have not ended
}

// Held is a group of jobs held back because the first attempts of jobs like them all failed
// the same way.
type Held struct {
	Jobs     int    `json:"jobs"`     // held back
	First    string `json:"first"`    // the first job held back
	Attempts int    `json:"attempts"` // that failed the same way, each of another job
	Cause    string `json:"cause"`
	GPUs     []int  `json:"gpus"` // those attempts ran on
}

// Is reports whether a run is alive and in this phase.
func (s *Status) Is(p RunPhase) bool { return s.Run != nil && Value(s.Run.Phase) == p }

// In returns the jobs that are in one of some phases and, if they are running or queued, have an
// attempt.
func (s *Status) In(phases ...state.Phase) (jobs []*Job) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if alive := j.State == state.Running || j.State == state.Queued; slices.Contains(phases, j.State) && (j.Attempt != nil || !alive) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Indices returns the indices of an attempt's GPUs.
func (a *Attempt) Indices() []int {
	list := make([]int, len(a.GPUs))
	for i, g := range a.GPUs {
		list[i] = g.Index
	}
	return list
}

// Memory adds up what an attempt was granted on its GPUs, and what it uses; -1 if that is unknown.
func (a *Attempt) Memory() (granted, used gpu.Bytes) {
	for _, g := range a.GPUs {
		if granted += g.Granted; g.Used == nil || used < 0 {
			used = -1
			continue
		}
		used += *g.Used
	}
	return granted, used
}
