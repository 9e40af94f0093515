// Package engine defines engines, which run attempts and report how they end.
// Package engine/local runs them as processes on this host; enginetest is the suite
// that every engine must pass.
//
// Launch, Running and Ended are passed between processes as JSON.
//
// An engine makes no decisions: when, where and whether an attempt runs, and what
// its end means, is up to the scheduler, which no engine imports.
//
// # Another engine
//
// It is a package below runner/engine with an engine.Kind (kind.go), which opens an
// engine.Engine (engine.go). It gets a line in Engines (runner/batches/engines.go) and one in
// kinds of runner/engine/enginetest/engines_test.go, which checks every promise. Its name goes
// into Engines (jobspec/settings/cluster.go), the values of the setting engine, by which a run
// chooses it; starts in the ledger have the name of one that is not local, so that no other
// engine takes on its attempts (sameEngine). What Trace and Looker are to find when nobody is
// left must be in the attempt's folder (Launch.Dir). Kind.Abilities says in what it differs: if
// it Places, runner/session/run.go opens no GPUs, the core has no pool, and Open returns
// neither claims nor trees; if it Queues, an attempt is queued until its Running.
// runner/house_test.go gets its imports.
package engine

import (
	"context"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// An Identity says which attempt it is, and what it holds.
type Identity struct {
	UniID string
	Job   string
	Dir   string        // the attempt's own folder, or what its files' names begin with
	Grace time.Duration // between SIGTERM and SIGKILL
	Grant gpu.Grant     // what its claim holds
}

// A Launch is everything an engine needs to run one attempt. All paths are absolute. The journal
// exists; without one, the attempt's folder does, and is empty.
type Launch struct {
	Identity
	Command
	Output
	Attempt int
	Slot    state.Slot    // for its record
	Rank    int           `json:"-"` // among those that wait in an engine with a queue, the least goes first
	Key     string        // Key and Needs of the job, kept with the attempt's
	Needs   string        // status in case the ledger loses the start
	Timeout time.Duration // 0 for none
	Notice  *Notice       // of its timeout; nil for SIGTERM, and SIGKILL after Grace
	Tree    bool          // ends when no process of its tree is left (block dialect)
	UniFile string        // with Tree: the uni_id.json the script reports in; a PID that it lists as running belongs to the tree

	Ask *Ask `json:",omitempty"` // of an engine that places; nil for others

	// Leftovers says what to do with processes that outlive the last command, one of
	// the Leftovers constants; "" means LeftoversKill.
	Leftovers string
}

// An Ask is what a job asks of an engine that chooses where it runs.
type Ask struct {
	GPUs      int
	Models    []string  // any of these, as the job file names them; empty for any
	GPUMemory gpu.Bytes // of each GPU; 0 for any
	CPUs      int       // 0 for what the cluster gives
	Memory    gpu.Bytes // 0 for what the cluster gives
	Priority  int
	Strays    bool // it may use GPUs that it was not given

	Options map[string]string `json:"-"` // settings.cluster, with the job's own keys instead
	Limit   time.Duration     `json:"-"` // after which the cluster may end it; 0 for soon after its timeout
}

// Token stands in a command or its environment for what is known only where it runs: gpu,
// gpu_list, ngpus or port.
func Token(name string) string { return "\x01" + name + "\x01" }

// A Notice is how an attempt is told that its timeout is over.
type Notice struct {
	Signal string        `json:"signal,omitempty"`   // to those of its processes that catch it: "USR1"; "" for SIGTERM to all
	Grace  time.Duration `json:"grace_ns,omitempty"` // until SIGKILL
}

// A Command is what an attempt runs.
type Command struct {
	Shell      []string // argv before each command
	Commands   []string // in order, each in its own shell; the first failure ends the attempt
	Env        []string // its environment, beyond Config.Environ and before it
	WorkDir    string
	Cores      string // CPU cores to bind it to, as far as they may be used here, "0-7,16"; "" for any
	Config     string // the config file it reads; not replaced while the attempt is live
	ConfigSum  string // required checksum of Config (configcopy.Sum)
	ConfigLock string // what keeps Config from being replaced; "" if nothing replaces it
}

// An Output is where it goes. Files are opened for appending and created if missing, with
// their folders.
type Output struct {
	Stdout string
	Stderr string // same path as Stdout: same open file
	Header string // a line to write to Stdout, and to Stderr if different, before the commands; or ""
}

// Values of Launch.Leftovers.
const (
	LeftoversAuto = "auto" // wait for what a launcher left behind, kill what any other job did
	LeftoversWait = "wait"
	LeftoversKill = "kill"
	LeftoversFail = "fail" // kill, and fail the attempt
)

// An Attempt was started by an earlier run and has no recorded end. Its folder may be gone.
type Attempt struct {
	Identity
	PID      int // 0 if not in the ledger
	PIDStart uint64
	Started  time.Time
}

// How is how to end an attempt.
type How int

const (
	Term     How = iota // SIGTERM to the whole tree, SIGKILL after the grace period
	Kill                // SIGKILL immediately
	Withdraw            // only if nothing of it has begun: from the queue of a cluster
)

// An Engine runs attempts. Its methods do not wait for processes, or for a cluster. What
// happens arrives on Events, in order for each attempt. It is not safe for concurrent use.
type Engine interface {
	// Launch starts attempts: all that are to start at one moment. For each, exactly one
	// Ended follows, even if it could not be started; if it was, a Running comes first, and
	// with Abilities.Queues any number of Queued before that.
	Launch(...Launch)
	// Stop ends an attempt. The reason is saved in its status before the first signal.
	// It does nothing if the attempt is over. Kill overrides an earlier Term.
	Stop(uniID, why string, how How)
	// Adopt takes on attempts of an earlier run. For each, Running follows if it is still
	// running, and one Ended once it is over.
	Adopt(...Attempt)

	// Events returns the channel of all events. Close closes it.
	Events() <-chan Event
	// Close releases the engine. Running attempts keep running. The error is for the user: what
	// a cluster has not heard in time, and what to do about it.
	Close() error
}

// Trees reads and signals the processes that attempts have on this host.
type Trees interface {
	// Attempt returns the attempt whose process tree contains pid, or "".
	Attempt(pid int) string
	// CPU returns the CPU time that the processes of attempts have used so far, without an
	// entry for those of which that is unknown. It may read the process table, and be called
	// at any time.
	CPU(uniIDs []string) map[string]time.Duration
	// OnGPU tells the engine that processes of an attempt were seen on its own GPUs,
	// which decides whether to wait for them if they stay in the background.
	OnGPU(uniID string, pids []int)
	// Save asks an attempt to save its work: signal ("USR1") goes to those of its processes
	// that catch it, and the attempt is stopped like with Term once it has had some time.
	// Stopping comes before the signal, or Declined if there is none.
	Save(uniID, why, signal string, wait time.Duration)
}

// Queue steers what waits in the queue of a cluster. Its methods do not wait for the cluster.
type Queue interface {
	// Hold has an attempt wait there until it is released, unless it begins first.
	Hold(uniID string, held bool)
	// Limit bounds how many attempts run at once, 0 for any number, and how many GPUs they ask
	// for in all, -1 for any number.
	Limit(jobs, gpus int)
}

// Claims are what the runs on this host tell each other. Any goroutine may use them.
//
// A claim tells other runs what an attempt holds. It is kept for as long as anything of the
// attempt lives, whatever happens to this process.
type Claims interface {
	// Claim publishes a claim, then returns what others hold; nil if claims are disabled.
	// After an error nothing is claimed.
	Claim(ctx context.Context, uniID, job string, g gpu.Grant) (others []gpu.Claim, warnings []string, err error)
	// Stand says that the claim of uniID is for the process pid, which the caller started
	// itself, instead of for an attempt.
	Stand(uniID, job string, g gpu.Grant, pid int)
	// Withdraw ends the claim of an attempt that will not be launched.
	Withdraw(uniID string)
	// Yield releases an ended attempt's claim on these devices, which pass to the next
	// attempt without a gap.
	Yield(uniID string, ids []gpu.UUID)
	// Offer lets another run have a device of an attempt or command that has ended, until Yield
	// or Withdraw.
	Offer(uniID string, id gpu.UUID, to string)
	// Wish publishes what this run waits for; without requests, nothing.
	Wish(gpu.Wish)
	// Wishes returns those of other runs, as of the latest reading of claims.
	Wishes() []gpu.Wish
	// Others returns the claims of other runs, and how much of each the readings show in use.
	Others(ctx context.Context, readings []gpu.Reading) (others []gpu.Claim, warnings []string)
	// Sick returns all users' quarantines since the boot, as of the latest reading of claims;
	// nil if claims are disabled.
	Sick() []gpu.Quarantine
	// Quarantine publishes one of this user's.
	Quarantine(gpu.Quarantine) error
}

// A BrokenError is why an engine cannot start any more attempts.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// An Event is something that happened to one attempt.
type Event struct {
	UniID      string
	Queued     *Queued
	Running    *Running
	Background *Background
	Suspended  *bool // whether a cluster has suspended it, after Running
	Stopping   *Stopping
	Declined   string // why it was not asked to save its work
	Ended      *Ended
	Warnings   []string // for the user, not about a particular attempt

	// Noticed reports that other runs claim or wish for something else now.
	Noticed bool

	// Silent, if not nil, lists all parts of the engine that are not answering now, one
	// sentence each.
	Silent *[]string
}

// Background reports that an attempt's commands have ended but a process they left
// keeps it running. It may be repeated, for another process.
type Background struct {
	PID  int
	Text string // describes the process: "python 4711"
}

// Queued reports that the attempt waits in the queue of a cluster. It may be repeated.
type Queued struct {
	JobID    string    // there
	Reason   string    // why it waits, as the cluster says; "" if unknown
	Expected time.Time // when it begins, by the cluster's own estimate; zero if it has none
}

// Running reports that the attempt's first process exists.
type Running struct {
	PID      int
	PIDStart uint64 // kernel start time, clock ticks after boot
	Adopted  bool
	Started  time.Time
	Host     string     `json:",omitempty"` // where it runs, if that is not this host
	Grant    *gpu.Grant `json:",omitempty"` // what it was given, if the engine chose
}

// Stopping reports that the engine itself is about to signal the attempt, because it
// timed out or is to save its work. The engine waits up to a second for Ack before the first signal, so the
// ledger records the reason first.
type Stopping struct {
	Why string // state.WhyTimeout, or that of Save
	Ack func()
}

// Ended reports that no process of the attempt is left, or that it never began.
type Ended struct {
	ExitCode  int    // of the command that ended it; -1 if killed by a signal or unknown
	Signal    string // "SIGKILL", or ""
	Why       string // why it was stopped before its end (state.Why…), or ""
	Started   time.Time
	At        time.Time     // when the last command ended
	Elapsed   time.Duration // in CLOCK_BOOTTIME
	OOMKilled bool          // the kernel's OOM kill count rose, and a SIGKILL that we did not send ended it
	Lost      bool          // its exit status is unknown
	Void      bool          // with Lost: it never executed anything
	Err       string        // why it could not be started; with Why, who else ended it; or ""
	Refused   bool          // with Err: it was not taken, and would not be if it were asked for again
	NoRoom    bool          // with Err: its record or log could not be written, so nothing ran
	Report    string        // Tree: what the script reported: "normal_exit", "abnormal_exit" or ""
	LeftOver  int           // processes ended by the engine after the last command
	Uncharged string        `json:",omitempty"` // why it was not the job's fault that it did not succeed, so that it spends no retry; or ""
	Displaced bool          `json:",omitempty"` // with Uncharged: it had to make room, or its place was unfit, which may happen any number of times

	PeakHost gpu.Bytes  // the most host memory that one of its processes took; 0 if unknown
	Peaks    []gpu.Peak `json:",omitempty"` // of its GPUs, if only the engine can read them
	Readings int        `json:",omitempty"` // in how many readings it used any of them

	Unsaved     string // why its status record could not be written, or ""
	LeftRunning string // why leaving processes behind counts as a failure, or ""
	Stuck       []int  // PIDs that survived SIGKILL for 30 s; they may hold GPUs
}
