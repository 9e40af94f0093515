package schema

import (
	"gpurun/gpu"
	"gpurun/state"
	"slices"
)

// Live is what only a live run can report, apart from its jobs.
type Live struct {
	Next       *Next    `json:"next"`                 // the next job in line, if something keeps it from starting
	Stalled    []string `json:"stalled"`              // running jobs that have made no progress for too long
	Bottleneck *string  `json:"bottleneck"`           // why the next job in line waits, in short
	End        *End     `json:"end"`                  // when all jobs will be done; null if no job is left
	Kept       *string  `json:"kept"`                 // how many GPUs are reserved for the next job so far
	Others     []string `json:"others_waiting"`       // other runs on this host that wait for GPUs: at most 8
	Queues     []Lane   `json:"queues"`               // named queues that are not empty: at most 50
	Held       []Held   `json:"held"`                 // jobs held back because similar jobs failed with the same error: at most 20 groups
	Draining   *string  `json:"draining"`             // why no more jobs start
	Silent     []string `json:"silent_keepers"`       // keepers that do not respond, one sentence each
	Unread     *string  `json:"no_readings"`          // why the GPUs cannot be read
	Stale      *float64 `json:"readings_age_seconds"` // age of the last reading of the GPUs, if it is too old to use

	Failed int              `json:"-"` // jobs that have failed permanently since the run began, including those that ran again
	Fresh  []FailedJob      `json:"-"` // the most recent of these jobs, newest last; at most 1000
	GPUs   []state.Pressure `json:"-"` // all devices that the run has read
}

// Next is the next job in line.
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

// Held is a group of jobs held back because the first attempts of similar jobs all failed with the
// same error.
type Held struct {
	Jobs     int    `json:"jobs"`     // number of jobs held back
	First    string `json:"first"`    // the first job held back
	Attempts int    `json:"attempts"` // attempts that failed with the same error, one per job
	Cause    string `json:"cause"`
	GPUs     []int  `json:"gpus"` // the GPUs of those attempts
}

// Is reports whether a run is alive and in this phase.
func (s *Status) Is(p RunPhase) bool { return s.Run != nil && Value(s.Run.Phase) == p }

// In returns the jobs in some phases. It skips running and queued jobs that have no attempt.
func (s *Status) In(phases ...state.Phase) (jobs []*Job) {
	for _, j := range s.Jobs {
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

// Node returns the cluster node that runs the attempt, or "" for this host.
func (a *Attempt) Node() string {
	if a.Submitted == nil {
		return ""
	}
	return Value(a.Host)
}

// On reports whether the attempt uses a GPU of this host.
func (a *Attempt) On(g *GPU) bool {
	return a.Node() == "" && slices.ContainsFunc(a.GPUs, func(x AttemptGPU) bool { return x.Index == g.Index && x.UUID == g.UUID })
}

// Memory returns the total memory granted to an attempt on its GPUs, and the total memory that it
// uses there. used is -1 if unknown.
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
