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
	KindQueued  Kind = "queued"  // it is in a cluster's queue
	KindRunning Kind = "running" // its process exists
	KindStalled Kind = "stalled" // it has made no progress for too long, but is still running
	KindResumed Kind = "resumed" // it has made progress again after it stalled
	KindPoints  Kind = "points"  // it has reported values of its prune metric
	KindStop    Kind = "stop"    // it is about to be signaled
	KindEnd     Kind = "end"     // it ended
	KindForget  Kind = "forget"  // the last success of `key` no longer counts
	KindOver    Kind = "over"    // a run ended without being killed
)

// A Fact is one line of a ledger. Its kind determines which fields are set. JSON names of quantities
// include the unit.
type Fact struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`

	// Run facts. Params are those given on the command line.
	RunID     string            `json:"run_id,omitempty"`  // also its name in gpurun queue
	Version   int               `json:"version,omitempty"` // of the ledger's format
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
	Usable    int               `json:"usable_gpus,omitempty"` // GPUs that the run could use
	Files     []string          `json:"files,omitempty"`       // the run's other job files, relative to this one
	Within    string            `json:"within,omitempty"`      // the cluster job that the run is part of, as that cluster's engine identifies it

	// Start facts. Job, Key, UniID and Attempt are also set on running, stop and end; Job and Key
	// on forget.
	Job        string            `json:"job,omitempty"`
	Key        string            `json:"key,omitempty"`
	UniID      string            `json:"uni_id,omitempty"`
	Attempt    int               `json:"attempt,omitempty"`
	Params     map[string]string `json:"params,omitempty"`
	Commands   []string          `json:"commands,omitempty"`
	Traits     map[string]string `json:"traits,omitempty"` // what else determines what the job does: config values, and hashes of env values, shell and work_dir
	GPUs       []int             `json:"gpus,omitempty"`
	GPUUUIDs   []gpu.UUID        `json:"gpu_uuids,omitempty"`
	Memory     gpu.Bytes         `json:"memory_bytes,omitempty"` // granted on each GPU
	Close      gpu.Closeness     `json:"closeness,omitempty"`    // the connection between the two GPUs farthest apart, if known
	Log        string            `json:"log,omitempty"`
	LogFrom    int64             `json:"log_from_bytes,omitempty"` // offset in the log where the attempt's part begins; also 0 if unknown
	Stderr     string            `json:"stderr,omitempty"`         // the log of stderr, if it is separate
	Started    string            `json:"started,omitempty"`        // value of {started}, if the path of a log or metric contains it
	Port       int               `json:"port,omitempty"`           // value of {port}, likewise
	Inputs     []Input           `json:"inputs,omitempty"`
	Snapshot   string            `json:"snapshot,omitempty"`      // the copy of the code that it runs in; on `run`: the copy that the run began with
	Queue      string            `json:"queue,omitempty"`         // as its file spells it
	Pool       map[string]int    `json:"pool,omitempty"`          // how much of a pool it uses
	Needs      string            `json:"needs,omitempty"`         // hash of the sorted keys of the jobs it needs
	SeedGroup  string            `json:"family,omitempty"`        // equal for jobs that differ only in seeds
	Free       int               `json:"free_attempts,omitempty"` // earlier attempts in this run that spent no retry
	GPUSeconds float64           `json:"gpu_seconds,omitempty"`   // on `over`: GPU time that the run's attempts used
	Lost       []Loss            `json:"lost,omitempty"`          // GPU time lost since the previous start; also on `over`
	NoPrune    bool              `json:"no_prune,omitempty"`      // a user exempted it from pruning; also on `end`
	Anew       bool              `json:"anew,omitempty"`          // its inputs or needs changed, so what earlier attempts reported no longer counts

	// Start: the engine, unless this host runs the attempt. Queued: the job's ID on the cluster.
	// With such an engine, running and end also set Host, GPUs and GPUUUIDs, and end sets JobID and
	// Began.
	Engine string    `json:"engine,omitempty"` // slurm or sge; left out if this host runs the attempt
	JobID  string    `json:"job_id,omitempty"`
	Began  time.Time `json:"began,omitzero"`

	// Running facts. For an attempt that ended right after it began, the end fact sets PID instead.
	PID      int    `json:"pid,omitempty"`
	PIDStart uint64 `json:"pid_start,omitempty"` // kernel start time, clock ticks after boot

	// Points facts. On end: the points that are kept for the job.
	Points     Curve  `json:"points,omitempty"`      // pairs [step, value]; value is null if it was not finite
	PointsRule string `json:"points_rule,omitempty"` // hash of the rule that read them

	// Stop and end facts. On over: what ended the run, such as "SIGTERM".
	Why string `json:"why,omitempty"` // on `stop`: cancelled, interrupted, timeout, stalled, pruned, fail-fast, gpu, resize, stray, preempted, left-over

	// End facts.
	State        Phase             `json:"state,omitempty"`
	ExitCode     *int              `json:"exit_code,omitempty"`
	Signal       string            `json:"signal,omitempty"`     // such as SIGKILL
	ErrorType    string            `json:"error_type,omitempty"` // oom, timeout, stalled, signal, exit, lost, left_running, stray_gpu
	Cause        CauseCode         `json:"cause,omitempty"`      // why it ended without success; left out by older versions
	Reason       string            `json:"reason,omitempty"`     // for people, e.g. "output ckpt/a.pt missing"
	Line         string            `json:"line,omitempty"`       // for a failure: the log line that explains it
	Uncharged    string            `json:"uncharged,omitempty"`  // for a failure that spent no retry: why, e.g. "GPU 3 may be at fault"
	NoRetry      string            `json:"no_retry,omitempty"`   // for a failure with retries left: why there is no retry
	Seconds      float64           `json:"seconds,omitempty"`
	PeakMemory   gpu.Bytes         `json:"peak_gpu_memory_bytes,omitempty"`
	PeakEach     []gpu.Bytes       `json:"peak_each_gpu_bytes,omitempty"`    // on each GPU, if there are several
	PeakReadings int               `json:"peak_readings,omitempty"`          // number of readings behind peak_gpu_memory_bytes
	Preallocated bool              `json:"preallocated,omitempty"`           // peak_gpu_memory_bytes is what the job preallocated, not what it needs
	PeakHost     gpu.Bytes         `json:"peak_host_memory_bytes,omitempty"` // of its largest process
	Metrics      map[string]any    `json:"metrics,omitempty"`
	Measured     map[string]string `json:"measured,omitempty"`     // for each metric read from the log or a file: hash of the rule that found it
	LogTo        int64             `json:"log_to_bytes,omitempty"` // offset in the log where the attempt's part ends; also 0 if unknown
	By           string            `json:"by,omitempty"`           // a user's "done" or "done without outputs"
	Confirms     time.Time         `json:"confirms,omitzero"`      // end of the success that it confirms
	From         string            `json:"from,omitempty"`         // the job file from whose ledger this success and its start data were copied
}

// Grant returns the grant of an attempt, from its start fact f.
func (f *Fact) Grant() gpu.Grant {
	return gpu.Grant{UUIDs: f.GPUUUIDs, Indices: f.GPUs, Memory: f.Memory, Close: f.Close, Since: f.Time}
}

// Values of Fact.By for successes without an attempt.
const (
	ByDone        = "done"
	ByDoneWithout = "done without outputs" // counts even though outputs are missing
)

// Confirm dates f, a mark by gpurun done, back to the end of the job's last success r, if r still
// counts. Call it if outputs are missing: the work was not redone, so jobs that have used its
// results stay up to date.
func (f *Fact) Confirm(r *Record) {
	switch {
	case r == nil || r.State != Succeeded || r.Forgotten || r.Simulated():
	case r.Confirms.IsZero():
		f.Confirms = r.Time
	default:
		f.Confirms = r.Confirms
	}
}

// BeganAt returns when the attempt that ended began on a cluster, or zero if it never began. Facts
// from earlier versions contain only how long it ran, so the time is derived from that.
func (f *Fact) BeganAt() time.Time {
	if f.Began.IsZero() && f.Host != "" {
		return f.Time.Add(-time.Duration(f.Seconds * float64(time.Second)))
	}
	return f.Began
}

// Withdrawn reports whether an attempt was taken out of a cluster's queue before it began, because
// its run stopped. Such an attempt is ignored.
func (f *Fact) Withdrawn(start *Fact) bool {
	return start.Engine != "" && f.State == Interrupted && f.Why == WhyInterrupted && f.ExitCode == nil && f.BeganAt().IsZero()
}

// TakenOver returns a success for another ledger as a single fact: the end, plus what later
// commands need from its start and its run.
func TakenOver(file string, run, start, end Fact) Fact {
	f := end
	f.From, f.Commit, f.Dirty, f.Sim = file, run.Commit, run.Dirty, run.Sim
	f.Job, f.Key, f.Attempt = cmp.Or(end.Job, start.Job), cmp.Or(end.Key, start.Key), cmp.Or(end.Attempt, start.Attempt)
	if start.Kind == KindStart {
		f.Params, f.Commands, f.Traits, f.Inputs, f.Needs, f.SeedGroup = start.Params, start.Commands, start.Traits, start.Inputs, start.Needs, start.SeedGroup
		f.Memory, f.Close, f.Log, f.LogFrom, f.Stderr, f.Snapshot = start.Memory, start.Close, start.Log, start.LogFrom, start.Stderr, start.Snapshot
		f.Started, f.Port = start.Started, start.Port
		if end.Host == "" { // otherwise, a cluster chose the GPUs after the start
			f.GPUs, f.GPUUUIDs = start.GPUs, start.GPUUUIDs
		}
	}
	return f
}

// A Loss is GPU time that a run could not use although jobs waited for GPUs.
type Loss struct {
	Code    gpu.Code `json:"code"`           // why the run could not use it
	User    string   `json:"user,omitempty"` // the user whose jobs or processes held the GPU
	Seconds float64  `json:"gpu_seconds"`
}

// AddTo adds l to the loss in sum with the same code and user, and returns the updated list.
func (l Loss) AddTo(sum []Loss) []Loss {
	i := slices.IndexFunc(sum, func(o Loss) bool { return o.Code == l.Code && o.User == l.User })
	if i < 0 {
		return append(sum, l)
	}
	sum[i].Seconds += l.Seconds
	return sum
}

// An Input is an input file of a job, as it was when the job started.
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
	WhyStalled     = "stalled" // made no progress for too long
	WhyPruned      = "pruned"  // worse than comparable jobs
	WhyFailFast    = "fail-fast"
	WhyGPU         = "gpu"       // stop --gpu: requeued, uncharged
	WhyStray       = "stray"     // used a GPU it was not granted
	WhyPreempted   = "preempted" // preempted by another run, or its hours ended: requeued, uncharged
	WhyCluster     = "cluster"   // only in an attempt's own record: its cluster signaled it, for a reason that only the cluster reports
	WhyResize      = "resize"    // an elastic job restarts with a different number of GPUs
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
	ErrLeftRunning = "left_running" // its commands left processes running that were not part of its work
)

// Flat flattens metrics from the ledger or a result file: nested ones get names like test.acc.
func Flat(all map[string]any) map[string]any {
	for name, value := range all {
		if nested, is := value.(map[string]any); is {
			delete(all, name)
			for key, v := range Flat(nested) {
				all[name+"."+key] = v
			}
		}
	}
	return all
}
