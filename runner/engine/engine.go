// Package engine defines engines, which run attempts and report how they end.
// Package engine/local runs attempts as processes on this host; enginetest is the test suite
// that every engine must pass.
//
// Launch, Running and state.End are passed between processes as JSON.
//
// An engine makes no decisions. The scheduler, which no engine imports, decides whether, when and
// where an attempt runs, and what its end means.
//
// # Another engine
//
// To add an engine:
//
//   - Write a package below runner/engine with an engine.Kind (kind.go), which opens an
//     engine.Engine (engine.go). Everything that Trace and Looker need must be in the attempt's
//     folder (Launch.Dir), because there may be no process left to ask.
//   - Set Kind.Abilities. If Places is set, runner/session/run.go opens no GPUs, the core has no
//     pool, and Open returns neither claims nor trees. If Queues is set, an attempt counts as queued
//     until its Running event.
//   - Add the Kind to Engines (runner/batches/engines.go) and to kinds
//     (runner/engine/enginetest/engines_test.go), so that the suite tests it. Add its name to
//     Engines (jobspec/settings/cluster.go), the values of the engine setting. The ledger records
//     the name of every engine but local, so that no other engine adopts its attempts (sameEngine).
//   - Add its imports to runner/house_test.go.
package engine

import (
	"context"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// An Identity identifies an attempt and the devices it holds.
type Identity struct {
	UniID string
	Job   string
	Dir   string        // the attempt's own folder, or the prefix of its files' names
	Grace time.Duration // between SIGTERM and SIGKILL
	Grant gpu.Grant     // the devices its claim holds
}

// A Launch is everything an engine needs to run one attempt. All paths are absolute. If Slot names
// a journal, that journal exists; otherwise, the attempt's folder exists and is empty.
type Launch struct {
	Identity
	Command
	Output
	Attempt       int
	Slot          state.Slot     // where its record goes
	Rank          int            `json:"-"` // order in an engine's queue, lowest first
	Key           string         // the job's Key, kept in the status record in case the ledger loses the start
	Needs         string         // hash of the jobs it needs, kept in the status record like Key
	Timeout       time.Duration  // 0 for none
	TimeoutSignal *TimeoutSignal `json:"Notice"` // nil for SIGTERM, then SIGKILL after Grace
	Tree          bool           // the attempt ends when no process of its tree is left (block dialect)
	UniFile       string         // with Tree: the uni_id.json the script writes; a PID it lists as running belongs to the tree

	Request *Request `json:"Ask,omitempty"` // nil if the engine does not place attempts

	// Leftovers is how processes that outlive the last command are treated: one of the Leftovers
	// constants; "" means LeftoversKill.
	Leftovers string
}

// A Request lists the resources that a job needs from an engine that places attempts.
type Request struct {
	GPUs      int
	Models    []string  // any of these, as the job file names them; empty for any
	GPUMemory gpu.Bytes // per GPU; 0 for any
	CPUs      int       // 0 for the cluster's default
	Memory    gpu.Bytes // 0 for the cluster's default
	Priority  int
	Strays    bool // it may use GPUs outside its grant

	Options map[string]string `json:"-"` // settings.cluster, overridden by the job's own keys
	Limit   time.Duration     `json:"-"` // time limit on the cluster; 0 for a little more than its timeout
}

// Token returns a placeholder in a command or its environment for a value that is known only on
// the node: gpu, gpu_list, ngpus or port.
func Token(name string) string { return "\x01" + name + "\x01" }

// A TimeoutSignal is the signal that an attempt gets when its timeout expires.
type TimeoutSignal struct {
	Signal string        `json:"signal,omitempty"`   // "USR1", for processes that catch it; "" for SIGTERM to all
	Grace  time.Duration `json:"grace_ns,omitempty"` // until SIGKILL
}

// A Command is what an attempt runs.
type Command struct {
	Shell      []string // argv to prepend to each command
	Commands   []string // in order, each in its own shell; the first failure ends the attempt
	Env        []string // its environment; overrides Config.Environ
	WorkDir    string
	Cores      string // CPU cores to bind it to, "0-7,16", without those unusable here; "" for any
	Config     string // the config file it reads; not replaced while the attempt is live
	ConfigSum  string // required checksum of Config (configcopy.Sum)
	ConfigLock string // lock against replacing Config; "" if nothing replaces it
}

// An Output names an attempt's log files. They are opened for appending. Missing files and folders
// are created.
type Output struct {
	Stdout string
	Stderr string // if it is the same path as Stdout, both share one open file
	Header string // a line to write to Stdout, and to Stderr if different, before the commands; or ""
}

// Values of Launch.Leftovers.
const (
	LeftoversAuto = "auto" // wait for a launcher's leftover processes, kill any other job's
	LeftoversWait = "wait"
	LeftoversKill = "kill"
	LeftoversFail = "fail" // kill, and fail the attempt
)

// An Attempt is an attempt that an earlier run started and that has no recorded end. Its folder may
// be gone.
type Attempt struct {
	Identity
	PID      int // 0 if not in the ledger
	PIDStart uint64
	Started  time.Time
}

// A StopMode selects how to end an attempt.
type StopMode int

const (
	Term     StopMode = iota // SIGTERM to the whole tree, SIGKILL after the grace period
	Kill                     // SIGKILL immediately
	Withdraw                 // from a cluster's queue; no effect once the attempt has begun
)

// An Engine runs attempts. Its methods do not wait for processes or a cluster. Results arrive on
// Events, in order for each attempt. An Engine is not safe for concurrent use.
type Engine interface {
	// Launch starts the given attempts: all that are due now. For each attempt, exactly one Ended
	// follows, even if the attempt could not be started. If it was started, a Running comes before
	// the Ended or with it. With Abilities.Queues, any number of Queued come before the Running.
	Launch(...Launch)
	// Stop ends an attempt. The reason is saved in its status before the first signal.
	// Stop does nothing if the attempt has ended. Kill overrides an earlier Term.
	Stop(uniID, why string, how StopMode)
	// Adopt reattaches to attempts of an earlier run. For each attempt, a Running follows if it is
	// still running, and exactly one Ended once it has ended.
	Adopt(...Attempt)

	// Events returns the channel of all events. Close closes it.
	Events() <-chan Event
	// Close releases the engine. Running attempts keep running. The error tells the user which
	// requests did not reach a cluster in time, and how to repeat them.
	Close() error
}

// Trees reads and signals the processes that attempts have on this host.
type Trees interface {
	// Attempt returns the attempt whose process tree contains pid, or "".
	Attempt(pid int) string
	// CPU returns the CPU time that the processes of attempts have used so far. Attempts whose CPU
	// time is unknown have no entry. CPU may read the process table. Any goroutine may call it.
	CPU(uniIDs []string) map[string]time.Duration
	// OnGPU reports processes of an attempt that were seen on its own GPUs. The engine waits for
	// such processes if they stay in the background.
	OnGPU(uniID string, pids []int)
	// Save asks an attempt to save its work: it sends signal ("USR1") to the processes that catch
	// it, and after wait it stops the attempt as Term does. A Stopping event precedes the signal.
	// If no process catches the signal, a Declined event comes instead.
	Save(uniID, why, signal string, wait time.Duration)
}

// Queue controls attempts in a cluster's queue. Its methods do not wait for the cluster.
type Queue interface {
	// Hold holds an attempt in the queue, or releases it. An attempt may begin before it is held.
	Hold(uniID string, held bool)
	// Limit bounds how many attempts run concurrently (0 for any number) and how many GPUs they
	// request in total (-1 for any number).
	Limit(jobs, gpus int)
}

// Claims publishes this run's claims and reads those of other runs on this host. It is safe for
// concurrent use.
//
// A claim shows other runs which devices an attempt holds. It lasts as long as any process of the
// attempt, even if this process dies.
type Claims interface {
	// Claim publishes a claim, then returns the claims of other runs; nil if claims are disabled.
	// After an error nothing is claimed.
	Claim(ctx context.Context, uniID, job string, g gpu.Grant) (others []gpu.Claim, warnings []string, err error)
	// Stand binds the claim of uniID to the process pid, which the caller started itself,
	// instead of to an attempt.
	Stand(uniID, job string, g gpu.Grant, pid int)
	// Outlast lets a claim that Stand has bound outlast this process: until the processes that the
	// command has left end, or none of them has used a GPU for a while.
	Outlast(uniID string)
	// Withdraw ends the claim of an attempt that will not be launched.
	Withdraw(uniID string)
	// Yield releases an ended attempt's claim on these devices. They stay claimed until then, so
	// that the next attempt can claim them without a gap.
	Yield(uniID string, ids []gpu.UUID)
	// Offer lets another run take a device of an attempt or command that has ended, until Yield
	// or Withdraw.
	Offer(uniID string, id gpu.UUID, to string)
	// Wish publishes this run's waiting requests. Without requests, it withdraws the wish.
	Wish(gpu.Wish)
	// Wishes returns the wishes of other runs, as of the last reading of claims.
	Wishes() []gpu.Wish
	// Others returns the claims of other runs, with the memory that the readings show in use.
	Others(ctx context.Context, readings []gpu.Reading) (others []gpu.Claim, warnings []string)
	// Quarantines returns all users' quarantines since the boot, as of the latest reading of claims;
	// nil if claims are disabled.
	Quarantines() []gpu.Quarantine
	// Quarantine publishes one of this user's quarantines.
	Quarantine(gpu.Quarantine) error
}

// A BrokenError reports that an engine cannot start any more attempts.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// An Event is something that happened to one attempt.
type Event struct {
	UniID      string
	Queued     *Queued
	Running    *Running // in one event with Ended if the attempt ended right after it began
	Background *Background
	Suspended  *bool // whether the cluster has suspended it; comes only after Running
	Stopping   *Stopping
	Declined   string // why the engine did not ask it to save its work
	Ended      *state.End
	Warnings   []string // for the user, not about a particular attempt

	// ClaimsChanged reports that claims or wishes of other runs have changed.
	ClaimsChanged bool

	// Silent, if not nil, lists all parts of the engine that are not answering, one sentence
	// each.
	Silent *[]string
}

// Background reports that an attempt's commands have ended but a leftover process keeps it running.
// It may be sent again for another process.
type Background struct {
	PID  int
	Text string // describes the process: "python 4711"
}

// Queued reports that the attempt waits in the queue of a cluster. It may be repeated.
type Queued struct {
	JobID    string    // on the cluster
	Reason   string    // the cluster's reason for the wait; "" if unknown
	Expected time.Time // the cluster's estimate of its start; zero if it has none
}

// Running reports that the attempt's first process exists.
type Running struct {
	PID      int
	PIDStart uint64 // kernel start time, clock ticks after boot
	Adopted  bool
	Started  time.Time
	Host     string     `json:",omitempty"` // where it runs, unless on this host
	Grant    *gpu.Grant `json:",omitempty"` // its devices, if the engine chose them
}

// Stopping reports that the engine is about to signal the attempt, because it timed out or must
// save its work. The engine waits up to a second for Ack before the first signal, so that the
// ledger records the reason first.
type Stopping struct {
	Why string // state.WhyTimeout, or the reason given to Save
	Ack func()
}
