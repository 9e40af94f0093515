// Package schema defines the JSON that gpurun prints for programs, gpurun.status/1.
// docs/reference/json.md is made from the types and comments of this package; a test holds it to that.
//
// Times are UTC, in RFC 3339. Names end in their unit. What is unknown is null, and lists
// that are known are never null. Later versions of gpurun add fields and codes; they change
// none. Texts are for people and may change.
package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Version is the schema's name.
const Version = "gpurun.status/1"

// Head begins every document.
type Head struct {
	Schema string    `json:"schema"` // gpurun.status/1
	Now    time.Time `json:"now"`    // when it was made
}

// At returns the head of a document made at some time.
func At(now time.Time) Head { return Head{Version, now.UTC()} }

// Status is a batch at one moment: what `gpurun status --json` prints and, with a plan in
// each job, `gpurun plan --json`.
type Status struct {
	Head
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"`         // the live run, else the last one, or that of --run; null if there was none
	Counts   map[state.Phase]int `json:"counts"`      // jobs by state: of a live run, those that it selected and those added to the files since
	Outcome  Outcome             `json:"outcome"`     // how the batch is as a whole, by these counts
	Tally    Tally               `json:"tally"`       // the same jobs in five words
	Line     string              `json:"line"`        // the state line: all of this in a sentence
	ETA      *float64            `json:"eta_seconds"` // how long the rest takes
	GPUs     []GPU               `json:"gpus"`        // those that the run may use; null without a live run
	Jobs     []Job               `json:"jobs"`        // in the order of the job files
	Alike    []Alike             `json:"alike"`       // failures by error, most frequent first
	Warnings []Problem           `json:"warnings"`
	Live     *Live               `json:"live"` // what only a live run that answers knows; null without one
}

// Batch is the job files that run together.
type Batch struct {
	ID       string `json:"id"` // the same for every run of these files on this host
	Files    []File `json:"files"`
	WorkDir  string `json:"work_dir"` // of the first file; "" if it cannot be read
	StateDir string `json:"state_dir"`
	Host     string `json:"host"`
	User     string `json:"user"`

	Params map[string]string `json:"params"` // -p values with which the jobs are shown; null for the files' own
}

// File is a job file.
type File struct {
	Path    string `json:"path"`    // absolute
	Dialect string `json:"dialect"` // native, experiment list, block or lines; "" if it cannot be read
}

// Run is one run of a batch.
type Run struct {
	ID         *string           `json:"id"` // for --run; null in older ledgers
	Alive      bool              `json:"alive"`
	PID        *int              `json:"pid"` // while it is alive
	Started    *time.Time        `json:"started"`
	Ended      *time.Time        `json:"ended"`       // null while it is alive, and if it was killed
	Exit       *int              `json:"exit_status"` // likewise
	GPUSeconds *float64          `json:"gpu_seconds"` // that its attempts had GPUs; likewise, and null in older ledgers
	Phase      *RunPhase         `json:"phase"`       // while it is alive and answers
	Settings   map[string]string `json:"settings"`    // all, as the run goes by them
	Params     map[string]string `json:"params"`      // given with -p
	Sim        *string           `json:"sim"`         // the simulated GPUs it runs on
	Git        *Git              `json:"git"`
	Snapshot   *string           `json:"snapshot"` // the copy of the code that its next jobs run in
}

// Git is the state of the code when a run began.
type Git struct {
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"` // there were changes that were not committed
}

// RunPhase is what a live run is doing.
type RunPhase string

// The phases of a run.
const (
	RunRunning  RunPhase = "running"  // it starts jobs as GPUs become free
	RunWaiting  RunPhase = "waiting"  // none of its jobs runs: they wait for GPUs, a retry or other things
	RunPaused   RunPhase = "paused"   // it starts nothing until it is resumed
	RunDraining RunPhase = "draining" // it starts nothing more, and ends with the jobs that are running
	RunStopping RunPhase = "stopping" // it is ending its jobs
	RunWatching RunPhase = "watching" // all is done, and it waits for its files to change
)

// Job is a job of a batch.
type Job struct {
	File     string            `json:"file"` // as in batch.files
	Line     *int              `json:"line"` // where it is written
	Name     string            `json:"name"`
	Key      string            `json:"key"` // hash of what it does: its identity in the ledger
	Params   map[string]string `json:"params"`
	Tags     []string          `json:"tags"`
	Queue    *string           `json:"queue"`
	Priority int               `json:"priority"`
	Needs    []string          `json:"needs"`
	Commands []string          `json:"commands"` // what is known only at its start is left as {name}
	GPUs     *Range            `json:"gpus"`
	Memory   *gpu.Bytes        `json:"gpu_memory_bytes"` // that it asks for on each GPU
	State    state.Phase       `json:"state"`
	Since    *time.Time        `json:"since"`    // since when it is in that state
	Cause    *Cause            `json:"cause"`    // why it ended without success
	Wait     *Wait             `json:"wait"`     // what it waits for in a live run
	Plan     *Plan             `json:"plan"`     // whether the next run would run it; in plan and why, and of a job that is forgotten
	Attempts int               `json:"attempts"` // how many it has had in the run that last tried it
	Attempt  *Attempt          `json:"attempt"`  // the last one
	Metrics  map[string]any    `json:"metrics"`  // of its last success
}

// Range is how many GPUs a job may get.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// CountsOf returns counts of all states: none is unknown.
func CountsOf(phases map[state.Phase]int) map[state.Phase]int {
	counts := make(map[state.Phase]int, len(state.Phases))
	for _, p := range state.Phases {
		counts[p] = phases[p]
	}
	return counts
}

// Cause is why a job or an attempt ended without success.
type Cause struct {
	Code state.CauseCode `json:"code"`
	Text string          `json:"text"`
}

// CauseOf returns the cause of an end; nil for a success.
func CauseOf(end *state.Fact) *Cause {
	if code := end.CauseCode(); code != "" {
		text := end.Failure().Cause()
		if end.NoRetry != "" {
			text += "; no retry: " + end.NoRetry
		}
		return &Cause{code, text}
	}
	return nil
}

// Plan says whether the next run would run a job, and why.
type Plan struct {
	Run      bool       `json:"run"`
	Code     PlanCode   `json:"code"`
	Details  []string   `json:"details"`                 // the reason in words, and what has changed
	Takes    *float64   `json:"expected_seconds"`        // by what jobs like it took
	TakesBy  *int       `json:"expected_from"`           // from so many runs of jobs like it; 0 for the batch's median
	Learned  *int       `json:"gpu_memory_learned_from"` // runs of jobs like it; null if its file says what it needs
	Simulate *Simulated `json:"simulated"`               // only with --simulate

	Submission *Submission `json:"submission"` // what a cluster would be asked for; null on this host
}

// Submission is what becomes of a job that would be submitted to a cluster.
type Submission struct {
	Args    []string `json:"args"`          // of the cluster's command, for what the job asks for
	Limit   *float64 `json:"limit_seconds"` // after which the cluster may end it; null for its own limit
	Refused *string  `json:"refused"`       // why it would not be taken
	Begins  *string  `json:"begins"`        // when it would begin, by the cluster's estimate
}

// Simulated is a job's place in a simulation of the run, in seconds from now.
type Simulated struct {
	Start float64 `json:"start_seconds"`
	End   float64 `json:"end_seconds"`
	GPUs  []int   `json:"gpus"`
	By    string  `json:"known_by"` // what the times are based on
}

// Attempt is one execution of a job.
type Attempt struct {
	UniID      *string         `json:"uni_id"` // null if it never started
	N          int             `json:"n"`      // 1 for the first in its run
	State      state.Phase     `json:"state"`
	Submitted  *time.Time      `json:"submitted"` // to the queue of a cluster; null if this host runs it
	Started    *time.Time      `json:"started"`   // when it began to run; null in a queue
	Ended      *time.Time      `json:"ended"`
	Seconds    *float64        `json:"seconds"`   // how long it has run
	Host       *string         `json:"host"`      // where it runs: the node of a cluster
	JobID      *string         `json:"job_id"`    // in the queue of a cluster
	PID        *int            `json:"pid"`       // of its first process, while it runs
	GPUs       []AttemptGPU    `json:"gpus"`      // that it was granted
	Closeness  *gpu.Closeness  `json:"closeness"` // of several GPUs: what connects the farthest two
	ExitCode   *int            `json:"exit_code"`
	Signal     *string         `json:"signal"`    // that ended it: SIGKILL
	Cause      *Cause          `json:"cause"`     // why it ended without success
	Charged    *bool           `json:"charged"`   // whether it spent one of the job's retries
	Meanwhile  bool            `json:"meanwhile"` // it ended after its run was killed, and the ledger does not have that yet
	Snapshot   *string         `json:"snapshot"`  // the copy of the code that it runs in
	Log        *Log            `json:"log"`
	Background []BackgroundJob `json:"background"`       // processes that keep it running after its commands
	Stalled    *string         `json:"stalled"`          // while it has done nothing for too long, of what and for how long
	Stopping   *string         `json:"stopping"`         // why it is being stopped
	Note       *string         `json:"note"`             // how it goes on without its run
	Progress   *float64        `json:"progress"`         // how much of its work is done, from 0 to 1, by its log
	Takes      *float64        `json:"expected_seconds"` // what jobs like it took
	Metrics    map[string]any  `json:"metrics"`
}

// AttemptGPU is a GPU that an attempt was granted.
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
	From *int64 `json:"from"` // offset of its first byte
	To   *int64 `json:"to"`   // offset after its last; null while it runs
}

// BackgroundJob is a process that an attempt's commands left running.
type BackgroundJob struct {
	PID     *int   `json:"pid"`
	Command string `json:"command"`
}

// Alike is a group of jobs that failed with the same error.
type Alike struct {
	Kind   *string           `json:"kind"`  // the same as of its jobs on the page; null in history
	Cause  Cause             `json:"cause"` // of the first
	State  state.Phase       `json:"state"`
	Count  int               `json:"count"`  // how many jobs
	Jobs   []string          `json:"jobs"`   // the first 20
	Log    *string           `json:"log"`    // of the first
	UniID  *string           `json:"uni_id"` // its last attempt; null in history
	Params map[string]string `json:"params"` // the fewest that its jobs share and no success has; null if there are none
	Apart  *string           `json:"apart"`  // what sets its jobs apart, in words
}
