package state

import (
	"cmp"
	"slices"
	"time"

	"gpurun/gpu"
)

// Version is the ledger format's version. Ledgers with a newer one are refused.
const Version = 1

// Kind is the kind of a Fact.
type Kind string

const (
	KindRun     Kind = "run"     // a run began
	KindStart   Kind = "start"   // an attempt is about to begin
	KindQueued  Kind = "queued"  // a cluster has it in its queue
	KindRunning Kind = "running" // its process exists
	KindStalled Kind = "stalled" // it has done nothing for too long, and goes on
	KindPoints  Kind = "points"  // it has reported steps of the metric of its prune
	KindStop    Kind = "stop"    // it is about to be signaled, and why
	KindEnd     Kind = "end"     // it is over
	KindForget  Kind = "forget"  // the last success of Key no longer counts
	KindOver    Kind = "over"    // a run ended, other than by being killed
)

// A Fact is one line of a ledger. The comments below say which kinds set which
// fields; JSON names include the unit.
type Fact struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`

	// Run. Params are those of the command line.
	RunID     string            `json:"run_id,omitempty"`  // what gpurun queue calls it, too
	Version   int               `json:"version,omitempty"` // of the format
	Gpurun    string            `json:"gpurun,omitempty"`  // program version
	MachineID string            `json:"machine_id,omitempty"`
	Host      string            `json:"host,omitempty"`
	BootID    string            `json:"boot_id,omitempty"`
	PIDNS     string            `json:"pid_ns,omitempty"`
	Commit    string            `json:"git_commit,omitempty"`
	Dirty     bool              `json:"git_dirty,omitempty"`
	Settings  map[string]string `json:"settings,omitempty"`
	Sim       string            `json:"sim,omitempty"` // simulated GPUs it ran with
	Driver    string            `json:"driver,omitempty"`
	Usable    int               `json:"usable_gpus,omitempty"` // that it could use
	Within    string            `json:"within,omitempty"`      // the job of a cluster in which it is, as the engine of that cluster knows it again

	// Start. Job, Key, UniID and Attempt are also set on running, stop and end; Job and Key on forget.
	Job        string            `json:"job,omitempty"`
	Key        string            `json:"key,omitempty"`
	UniID      string            `json:"uni_id,omitempty"`
	Attempt    int               `json:"attempt,omitempty"`
	Params     map[string]string `json:"params,omitempty"`
	Commands   []string          `json:"commands,omitempty"`
	Traits     map[string]string `json:"traits,omitempty"` // what else defines it, for comparison: jobspec's Traits
	GPUs       []int             `json:"gpus,omitempty"`
	GPUUUIDs   []gpu.UUID        `json:"gpu_uuids,omitempty"`
	Memory     gpu.Bytes         `json:"memory_bytes,omitempty"` // granted on each GPU
	Close      gpu.Closeness     `json:"closeness,omitempty"`    // of several GPUs: what connects the farthest two, if known
	Log        string            `json:"log,omitempty"`
	LogFrom    int64             `json:"log_from_bytes,omitempty"` // where in it the attempt's part begins; 0 also if unknown
	Stderr     string            `json:"stderr,omitempty"`         // where that is not part of Log
	Inputs     []Input           `json:"inputs,omitempty"`
	Snapshot   string            `json:"snapshot,omitempty"`      // the copy of the code that it runs in; also run: the one that it began with
	Needs      string            `json:"needs,omitempty"`         // hash of the sorted keys of its needs
	SeedGroup  string            `json:"family,omitempty"`        // the same for jobs that differ only in seeds
	Free       int               `json:"free_attempts,omitempty"` // attempts before it in this run that spent no retry
	GPUSeconds float64           `json:"gpu_seconds,omitempty"`   // over: GPU time that the run's attempts had
	Lost       []Loss            `json:"lost,omitempty"`          // also over: GPU time lost since the start before it
	NoPrune    bool              `json:"no_prune,omitempty"`      // also end: a person asked for it to run to its end

	// Start: who runs it, if not processes of this host. Queued: the job's ID there. Running and
	// end also have the Host, GPUs and GPUUUIDs then, and end has the ID and when it began there.
	Engine string    `json:"engine,omitempty"` // slurm
	JobID  string    `json:"job_id,omitempty"`
	Began  time.Time `json:"began,omitzero"`

	// Running.
	PID      int    `json:"pid,omitempty"`
	PIDStart uint64 `json:"pid_start,omitempty"` // kernel start time, clock ticks after boot

	// Points; end: what counts of all points of its job.
	Points Curve `json:"points,omitempty"`

	// Stop and end; over: what stopped the run, "SIGTERM", or what else it ended with.
	Why string `json:"why,omitempty"` // stop: cancelled, interrupted, timeout, stalled, pruned, fail-fast, gpu, resize, stray, preempted, left-over

	// End.
	State        Phase             `json:"state,omitempty"`
	ExitCode     *int              `json:"exit_code,omitempty"`
	Signal       string            `json:"signal,omitempty"`     // "SIGKILL"
	ErrorType    string            `json:"error_type,omitempty"` // oom, timeout, stalled, signal, exit, lost, left_running, stray_gpu
	Cause        CauseCode         `json:"cause,omitempty"`      // why it ended without success; see Fact.CauseCode
	Reason       string            `json:"reason,omitempty"`     // for people, e.g. "output ckpt/a.pt missing"
	Line         string            `json:"line,omitempty"`       // for a failure: the log line that explains it
	Uncharged    string            `json:"uncharged,omitempty"`  // for a failure that spent no retry: why, e.g. "GPU 3 may be at fault"
	NoRetry      string            `json:"no_retry,omitempty"`   // for a failure of a job with retries left: why none follows
	Seconds      float64           `json:"seconds,omitempty"`
	PeakMemory   gpu.Bytes         `json:"peak_gpu_memory_bytes,omitempty"`
	PeakEach     []gpu.Bytes       `json:"peak_each_gpu_bytes,omitempty"`    // on each, if there are several
	PeakReadings int               `json:"peak_readings,omitempty"`          // number of readings behind PeakMemory
	Preallocated bool              `json:"preallocated,omitempty"`           // PeakMemory says what the GPU has, not what the job needs
	PeakHost     gpu.Bytes         `json:"peak_host_memory_bytes,omitempty"` // of its largest process
	Metrics      map[string]any    `json:"metrics,omitempty"`
	Measured     map[string]string `json:"measured,omitempty"`     // which of them were read from the log or a file, by which rule: jobspec's Metric.Sum
	LogTo        int64             `json:"log_to_bytes,omitempty"` // where in the log the attempt's part ends; 0 also if unknown
	By           string            `json:"by,omitempty"`           // ByDone or ByDoneWithout: marked by a person, nothing ran
	From         string            `json:"from,omitempty"`         // for a success copied from another ledger, with what its start said: that job file
}

// Grant returns what a start granted its attempt, as far as the ledger has it.
func (f *Fact) Grant() gpu.Grant {
	return gpu.Grant{UUIDs: f.GPUUUIDs, Indices: f.GPUs, Memory: f.Memory, Close: f.Close, Since: f.Time}
}

// Values of Fact.By, for a success that no attempt produced.
const (
	ByDone        = "done"
	ByDoneWithout = "done without outputs" // counts even though outputs are missing
)

// BeganAt returns when the attempt of an end began on a cluster, zero if it did not. Earlier versions
// recorded only for how long it ran.
func (f *Fact) BeganAt() time.Time {
	if f.Began.IsZero() && f.Host != "" {
		return f.Time.Add(-time.Duration(f.Seconds * float64(time.Second)))
	}
	return f.Began
}

// Withdrawn reports whether an attempt left the queue of a cluster with its run, before it began: it
// counts for nothing.
func (f *Fact) Withdrawn(start *Fact) bool {
	return start.Engine != "" && f.State == Interrupted && f.Why == WhyInterrupted && f.ExitCode == nil && f.BeganAt().IsZero()
}

// TakenOver returns a success as another ledger has it: one fact, with what its start and its
// run said that is asked for later.
func TakenOver(file string, run, start, end Fact) Fact {
	f := end
	f.From, f.Commit, f.Dirty, f.Sim = file, run.Commit, run.Dirty, run.Sim
	f.Job, f.Key, f.Attempt = cmp.Or(end.Job, start.Job), cmp.Or(end.Key, start.Key), cmp.Or(end.Attempt, start.Attempt)
	if start.Kind == KindStart {
		f.Params, f.Commands, f.Traits, f.Inputs, f.Needs, f.SeedGroup = start.Params, start.Commands, start.Traits, start.Inputs, start.Needs, start.SeedGroup
		f.Memory, f.Close, f.Log, f.LogFrom, f.Stderr, f.Snapshot = start.Memory, start.Close, start.Log, start.LogFrom, start.Stderr, start.Snapshot
		if end.Host == "" { // otherwise a cluster chose them, after the start
			f.GPUs, f.GPUUUIDs = start.GPUs, start.GPUUUIDs
		}
	}
	return f
}

// A Loss is GPU time that a run could not use although jobs waited for GPUs.
type Loss struct {
	Code    gpu.Code `json:"code"`           // why not
	User    string   `json:"user,omitempty"` // whose jobs or processes were there
	Seconds float64  `json:"gpu_seconds"`
}

// AddTo adds it to what was lost for the same reason.
func (l Loss) AddTo(sum []Loss) []Loss {
	i := slices.IndexFunc(sum, func(o Loss) bool { return o.Code == l.Code && o.User == l.User })
	if i < 0 {
		return append(sum, l)
	}
	sum[i].Seconds += l.Seconds
	return sum
}

// An Input is a file the job reads, as it was when the job started.
type Input struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size_bytes"`
	MTime time.Time `json:"mtime"`
	Hash  string    `json:"sha256,omitempty"` // empty above 64 MiB
}

// Reasons for a stop, Fact.Why.
const (
	WhyCancelled   = "cancelled"   // gpurun stop JOB
	WhyInterrupted = "interrupted" // the run was stopped
	WhyTimeout     = "timeout"
	WhyStalled     = "stalled" // did nothing for too long
	WhyPruned      = "pruned"  // is behind others
	WhyFailFast    = "fail-fast"
	WhyGPU         = "gpu"       // stop --gpu: requeued, uncharged
	WhyStray       = "stray"     // used a GPU it was not granted
	WhyPreempted   = "preempted" // gave way to another run, or its hours ended: requeued, uncharged
	WhyCluster     = "cluster"   // only in an attempt's own record: its cluster signalled it, and knows why
	WhyResize      = "resize"    // an elastic job starts again on another number of GPUs
)

// Kinds of failure, Fact.ErrorType and jobspec's retry.on.
const (
	ErrOOM         = "oom"
	ErrTimeout     = "timeout"
	ErrStalled     = "stalled"
	ErrSignal      = "signal"
	ErrExit        = "exit"
	ErrLost        = "lost"
	ErrStray       = "stray_gpu"    // never retried
	ErrLeftRunning = "left_running" // its commands left behind processes that were not its work
)
