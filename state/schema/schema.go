// Package schema defines the JSON that gpurun prints for programs, gpurun.status/1. A test checks
// that docs/reference/json.md matches the types and comments in this package.
//
// Times are UTC, in RFC 3339. Names of quantities end in the unit. Unknown values are null, and known
// lists are never null. Later versions of gpurun add fields and codes, but change none. Texts are for
// people and may change.
package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Version is the name of the schema.
const Version = "gpurun.status/1"

// Head begins every document.
type Head struct {
	Schema string    `json:"schema"` // gpurun.status/1
	Now    time.Time `json:"now"`    // when the document was created
}

// At returns the head of a document created at now.
func At(now time.Time) Head { return Head{Version, now.UTC()} }

// Status is a batch at one moment: what `gpurun status --json` prints and, with a plan for each
// job, `gpurun plan --json`.
type Status struct {
	Head
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"`         // the run given with --run, else the live run, else the last one; null if there is none
	Counts   map[state.Phase]int `json:"counts"`      // jobs by state; for a live run, only those selected for it or added since
	Outcome  Outcome             `json:"outcome"`     // the overall result, from these counts
	Tally    Tally               `json:"tally"`       // the same counts in five groups
	Line     string              `json:"line"`        // the state line: a summary in one sentence
	ETA      *float64            `json:"eta_seconds"` // estimated time until all jobs are done
	GPUs     []GPU               `json:"gpus"`        // GPUs that the run may use; null without a live run
	Jobs     []*Job              `json:"jobs"`        // in the order of the job files
	Alike    []Alike             `json:"alike"`       // failures by error, most frequent first
	Warnings []Problem           `json:"warnings"`
	Live     *Live               `json:"live"` // null if no live run responds
}

// Batch is a set of job files that run together.
type Batch struct {
	ID       string `json:"id"` // the same for all runs of the first file on this host
	Files    []File `json:"files"`
	WorkDir  string `json:"work_dir"` // of the first file; "" if unreadable
	StateDir string `json:"state_dir"`
	Host     string `json:"host"`
	User     string `json:"user"`

	Params map[string]string `json:"params"` // -p values in effect for the jobs shown; null for the defaults in the files
}

// File is a job file.
type File struct {
	Path    string `json:"path"`    // absolute
	Dialect string `json:"dialect"` // native, experiment list, block or lines; "" if unreadable
}

// Run is one run of a batch.
type Run struct {
	ID         *string           `json:"id"` // for --run; null in older ledgers
	Alive      bool              `json:"alive"`
	PID        *int              `json:"pid"` // null unless it is alive
	Started    *time.Time        `json:"started"`
	Ended      *time.Time        `json:"ended"`       // null while alive, and if killed
	Exit       *int              `json:"exit_status"` // null while alive, and if killed
	GPUSeconds *float64          `json:"gpu_seconds"` // GPU time of its attempts; null while alive, if killed, and in older ledgers
	Phase      *RunPhase         `json:"phase"`       // null unless it is alive and responds
	Settings   map[string]string `json:"settings"`    // all settings in effect
	Params     map[string]string `json:"params"`      // given with -p
	Sim        *string           `json:"sim"`         // the simulated GPUs that it uses
	Git        *Git              `json:"git"`
	Snapshot   *string           `json:"snapshot"` // the copy of the code for the jobs that it starts next
}

// Git is the version of the code when a run began.
type Git struct {
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"` // there were uncommitted changes
}

// RunPhase is what a live run is doing.
type RunPhase string

const (
	RunRunning  RunPhase = "running"  // it starts jobs as GPUs become free
	RunWaiting  RunPhase = "waiting"  // none of its jobs is running: they wait for GPUs, a retry or something else
	RunPaused   RunPhase = "paused"   // it starts no jobs until it is resumed
	RunDraining RunPhase = "draining" // it starts no more jobs, and ends when the running ones do
	RunStopping RunPhase = "stopping" // it is stopping its jobs
	RunWatching RunPhase = "watching" // all jobs are done, and it waits for its files to change
)

// Job is a job of a batch.
type Job struct {
	File     string            `json:"file"` // as in batch.files
	Line     *int              `json:"line"` // where it is defined
	Name     string            `json:"name"`
	Key      string            `json:"key"` // hash of what it does, which identifies it in the ledger
	Params   map[string]string `json:"params"`
	Tags     []string          `json:"tags"`
	Queue    *string           `json:"queue"`
	Priority int               `json:"priority"`
	Needs    []string          `json:"needs"`
	Commands []string          `json:"commands"` // variables whose values are known only when it starts stay as written: {gpu}
	GPUs     *Range            `json:"gpus"`
	Memory   *gpu.Bytes        `json:"gpu_memory_bytes"` // requested on each GPU
	State    state.Phase       `json:"state"`
	Since    *time.Time        `json:"since"`    // when it entered that state
	Cause    *Cause            `json:"cause"`    // why it did not succeed
	Wait     *Wait             `json:"wait"`     // what it waits for, in a live run
	Plan     *Plan             `json:"plan"`     // whether the next run would run it; only in plan and why, and for a forgotten job
	Attempts int               `json:"attempts"` // number of attempts in the last run that tried it
	Attempt  *Attempt          `json:"attempt"`  // the last attempt
	Metrics  map[string]any    `json:"metrics"`  // of its last success
}

// Range is how many GPUs a job may get.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// CountsOf returns counts for all states, 0 for those that phases lacks.
func CountsOf(phases map[state.Phase]int) map[state.Phase]int {
	counts := make(map[state.Phase]int, len(state.Phases))
	for _, p := range state.Phases {
		counts[p] = phases[p]
	}
	return counts
}

// Cause is why a job or an attempt did not succeed.
type Cause struct {
	Code state.CauseCode `json:"code"`
	Text string          `json:"text"`
}

// CauseOf returns the cause in an end fact, or nil for a success.
func CauseOf(end *state.Fact) *Cause {
	if code := end.CauseCode(); code != "" {
		text := end.Failure().Cause()
		if end.NoRetry != "" {
			text += noRetry + end.NoRetry
		}
		return &Cause{code, text}
	}
	return nil
}

// Plan is whether the next run would run a job, and why.
type Plan struct {
	Run      bool       `json:"run"`
	Code     PlanCode   `json:"code"`
	Details  []string   `json:"details"`                 // the reason in words, and the changes
	Takes    *float64   `json:"expected_seconds"`        // expected duration, from similar jobs
	TakesBy  *int       `json:"expected_from"`           // number of similar attempts behind expected_seconds; 0 for the batch's median
	Learned  *int       `json:"gpu_memory_learned_from"` // number of similar attempts behind the memory request; null if the job file sets it
	Simulate *Simulated `json:"simulated"`               // only with --simulate

	Submission *Submission `json:"submission"` // what a cluster would be asked for; null for jobs on this host
}

// Submission is how a job would be submitted to a cluster.
type Submission struct {
	Args    []string `json:"args"`          // arguments of the cluster's command
	Limit   *float64 `json:"limit_seconds"` // time after which the cluster may end it; null for the cluster's default
	Refused *string  `json:"refused"`       // why the cluster would refuse it
	Begins  *string  `json:"begins"`        // when it would start, by the cluster's estimate
}

// Simulated is a job's place in a simulation of the run, in seconds from now.
type Simulated struct {
	Start float64 `json:"start_seconds"`
	End   float64 `json:"end_seconds"`
	GPUs  []int   `json:"gpus"`
	By    string  `json:"known_by"` // source of the expected duration, in words
}

// Attempt is one execution of a job.
type Attempt struct {
	UniID      *string         `json:"uni_id"` // null if it never started
	N          int             `json:"n"`      // 1 for the first attempt in its run
	State      state.Phase     `json:"state"`
	Submitted  *time.Time      `json:"submitted"` // when it was queued on a cluster; null if this host runs it
	Started    *time.Time      `json:"started"`   // when it began to run; null while it is queued
	Ended      *time.Time      `json:"ended"`
	Seconds    *float64        `json:"seconds"`   // run time, so far or in total
	Host       *string         `json:"host"`      // where it runs: on a cluster, the node
	JobID      *string         `json:"job_id"`    // its ID in the cluster's queue
	PID        *int            `json:"pid"`       // its first process, while it runs
	GPUs       []AttemptGPU    `json:"gpus"`      // GPUs granted to it
	Closeness  *gpu.Closeness  `json:"closeness"` // for several GPUs: the connection between the two farthest apart
	ExitCode   *int            `json:"exit_code"`
	Signal     *string         `json:"signal"`    // signal that ended it, such as SIGKILL
	Cause      *Cause          `json:"cause"`     // why it did not succeed
	Charged    *bool           `json:"charged"`   // whether it spent one of the job's retries
	Meanwhile  bool            `json:"meanwhile"` // it ended after its run was killed, and its end is not in the ledger yet
	Snapshot   *string         `json:"snapshot"`  // the copy of the code that it runs in
	Log        *Log            `json:"log"`
	Background []BackgroundJob `json:"background"`       // processes that outlive its commands and keep it running
	Stalled    *string         `json:"stalled"`          // how long it has made no progress, and by which measure; null unless it has stalled
	Stopping   *string         `json:"stopping"`         // why it is being stopped
	Note       *string         `json:"note"`             // how it continues without its run
	Progress   *float64        `json:"progress"`         // fraction of its work completed, 0 to 1, according to its log
	Steps      *int            `json:"steps"`            // number of steps that its log counts: 20 in "epoch 7/20"
	Takes      *float64        `json:"expected_seconds"` // how long similar jobs took
	Metrics    map[string]any  `json:"metrics"`          // while it runs, those in its log so far
}

// AttemptGPU is a GPU granted to an attempt.
type AttemptGPU struct {
	Index   int        `json:"index"`
	UUID    gpu.UUID   `json:"uuid"`
	Granted gpu.Bytes  `json:"granted_bytes"`
	Used    *gpu.Bytes `json:"used_bytes"` // now
	Peak    *gpu.Bytes `json:"peak_bytes"`
}

// Log is an attempt's part of a log file.
type Log struct {
	Path string `json:"path"`
	From *int64 `json:"from"` // offset of the part's first byte
	To   *int64 `json:"to"`   // offset after its last byte; null while the attempt runs
}

// BackgroundJob is a process that an attempt's commands left running.
type BackgroundJob struct {
	PID     *int   `json:"pid"`
	Command string `json:"command"`
}

// Alike is a group of jobs that failed with the same error.
type Alike struct {
	Kind   *string           `json:"kind"`  // the kind of its jobs, as in JobRow
	Cause  Cause             `json:"cause"` // of the first job
	State  state.Phase       `json:"state"`
	Count  int               `json:"count"`  // number of jobs
	Jobs   []string          `json:"jobs"`   // the first 20 jobs
	Log    *string           `json:"log"`    // of the first job that has a log
	UniID  *string           `json:"uni_id"` // last attempt of the first job
	Params map[string]string `json:"params"` // the smallest set of parameters that its jobs share and no successful job has, or null
	Apart  *string           `json:"apart"`  // what distinguishes its jobs, in words
}
