package state

import (
	"time"

	"gpurun/gpu"
)

// Version is the ledger's format. A ledger of a newer one is refused.
const Version = 1

// Kind is the kind of a Fact.
type Kind string

const (
	KindRun     Kind = "run"     // a run began
	KindStart   Kind = "start"   // an attempt is about to begin
	KindRunning Kind = "running" // its process is there
	KindStop    Kind = "stop"    // it is about to be signalled, and why
	KindEnd     Kind = "end"     // it is over
	KindForget  Kind = "forget"  // the last success of Key no longer counts
)

// A Fact is one line of a ledger. Which fields are set depends on the kind, as
// the comments say; names carry their unit.
type Fact struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`

	// Run.
	Version   int               `json:"version,omitempty"` // of the format
	Gpurun    string            `json:"gpurun,omitempty"`  // version of the program
	MachineID string            `json:"machine_id,omitempty"`
	Host      string            `json:"host,omitempty"`
	BootID    string            `json:"boot_id,omitempty"`
	PIDNS     string            `json:"pid_ns,omitempty"`
	Commit    string            `json:"git_commit,omitempty"`
	Dirty     bool              `json:"git_dirty,omitempty"`
	Settings  map[string]string `json:"settings,omitempty"`
	Sim       string            `json:"sim,omitempty"` // the simulated GPUs that it ran with

	// Start; Job, Key, UniID and Attempt also on running, stop and end, Job and Key on forget.
	Job      string            `json:"job,omitempty"`
	Key      string            `json:"key,omitempty"`
	UniID    string            `json:"uni_id,omitempty"`
	Attempt  int               `json:"attempt,omitempty"`
	Params   map[string]string `json:"params,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	Traits   map[string]string `json:"traits,omitempty"` // of what else it does, for comparison: jobspec's Traits
	GPUs     []int             `json:"gpus,omitempty"`
	GPUUUIDs []gpu.UUID        `json:"gpu_uuids,omitempty"`
	Memory   gpu.Bytes         `json:"memory_bytes,omitempty"` // granted on each GPU
	Log      string            `json:"log,omitempty"`
	Inputs   []Input           `json:"inputs,omitempty"`
	Needs    string            `json:"needs,omitempty"`   // hash over the sorted keys of its needs
	Boot     time.Duration     `json:"boot_ns,omitempty"` // CLOCK_BOOTTIME of a start or an end, for what counts on over a gap

	// Running.
	PID      int    `json:"pid,omitempty"`
	PIDStart uint64 `json:"pid_start,omitempty"` // kernel start time, clock ticks after boot

	// Stop and end.
	Why string `json:"why,omitempty"` // stop: cancelled, interrupted, timeout, fail-fast, gpu, stray, left-over

	// End.
	State        Phase          `json:"state,omitempty"`
	ExitCode     *int           `json:"exit_code,omitempty"`
	Signal       string         `json:"signal,omitempty"`     // "SIGKILL"
	ErrorType    string         `json:"error_type,omitempty"` // oom, timeout, signal, exit, lost, left_running, stray_gpu
	Reason       string         `json:"reason,omitempty"`     // in words, "output ckpt/a.pt missing"
	Line         string         `json:"line,omitempty"`       // of a failure: what its log says of the cause
	Seconds      float64        `json:"seconds,omitempty"`
	PeakMemory   gpu.Bytes      `json:"peak_gpu_memory_bytes,omitempty"`
	PeakReadings int            `json:"peak_readings,omitempty"` // that PeakMemory is the highest of
	Metrics      map[string]any `json:"metrics,omitempty"`
	By           string         `json:"by,omitempty"` // ByDone or ByDoneWithout: a person said so, nothing ran
}

// Who says so of a success that no attempt had, Fact.By.
const (
	ByDone        = "done"
	ByDoneWithout = "done without outputs" // it counts though outputs are missing
)

// An Input is what a start saw of a file that the job reads.
type Input struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size_bytes"`
	MTime time.Time `json:"mtime"`
	Hash  string    `json:"sha256,omitempty"` // empty above 64 MiB
}

// Reasons of a stop, Fact.Why.
const (
	WhyCancelled   = "cancelled"   // a person's stop JOB
	WhyInterrupted = "interrupted" // the run was stopped
	WhyTimeout     = "timeout"
	WhyFailFast    = "fail-fast"
	WhyGPU         = "gpu"   // stop --gpu: requeued, uncharged
	WhyStray       = "stray" // on a GPU that it was not given
)

// Kinds of failure, Fact.ErrorType and jobspec's retry.on.
const (
	ErrOOM         = "oom"
	ErrTimeout     = "timeout"
	ErrSignal      = "signal"
	ErrExit        = "exit"
	ErrLost        = "lost"
	ErrStray       = "stray_gpu"    // never retried
	ErrLeftRunning = "left_running" // its commands left processes running that were not its work
)
