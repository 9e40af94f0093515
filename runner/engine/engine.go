// Package engine says what an engine is: the thing that makes attempts run and
// tells how they end. engine/local runs them as processes of this host;
// enginetest holds the suite that every engine must pass.
//
// Launch, Running and Ended go from process to process as JSON, thousands in a
// second: what is zero is left out of it.
//
// An engine never decides: when, where and whether an attempt runs, and what its
// end means, is the scheduler's. An engine never imports it.
package engine

import (
	"time"

	"gpurun/gpu"
)

// A Launch is everything an engine needs to run one attempt. All paths are absolute.
type Launch struct {
	UniID    string        `json:",omitempty"`
	Job      string        `json:",omitempty"`
	Key      string        `json:",omitempty"` // of the job, and what it needed: kept with the attempt's
	Needs    string        `json:",omitempty"` // status, for a ledger that has lost the start
	Attempt  int           `json:",omitempty"`
	Dir      string        `json:",omitempty"` // the attempt's own folder, already there and empty
	Shell    []string      `json:",omitempty"` // argv before each command
	Commands []string      `json:",omitempty"` // in order, each in a shell of its own; the first that fails ends the attempt
	Argv     []string      `json:",omitempty"` // instead of Shell and Commands: one command, run as it is
	Env      []string      `json:",omitempty"` // the whole environment
	WorkDir  string        `json:",omitempty"`
	Stdout   string        `json:",omitempty"` // opened for appending, made if missing, with its folders
	Stderr   string        `json:",omitempty"` // same path: same open file
	Header   string        `json:",omitempty"` // a line to write to Stdout, and to Stderr where it is another, before the first instruction, or ""
	Timeout  time.Duration `json:",omitempty"` // 0 for none
	Grace    time.Duration `json:",omitempty"` // between SIGTERM and SIGKILL
	Tree     bool          `json:",omitempty"` // over when no process of the tree is left (block dialect)
	Config   string        `json:",omitempty"` // the config file it reads; kept from being replaced while the attempt lives
	// ConfigSum is what the content of Config must be (configcopy.Sum).
	ConfigSum string `json:",omitempty"`

	// Leftovers says what becomes of processes that outlive the last command:
	// Leftovers…, "" for LeftoversKill.
	Leftovers string    `json:",omitempty"`
	UniFile   string    `json:",omitempty"` // with Tree: the uni_id.json in which the script reports; a pid it names as running is of the tree
	Grant     gpu.Grant `json:",omitzero"`  // what the attempt's claim holds

	// Foreground runs the attempt as a child of the calling process, in its
	// session and process group and with its stdin, stdout and stderr; Stdout,
	// Stderr and Header are not used. Signals of the terminal reach both, so the
	// caller lets SIGINT and SIGQUIT pass; it dies with the caller's terminal.
	Foreground bool `json:",omitempty"`
}

// Values of Launch.Leftovers.
const (
	LeftoversAuto = "auto" // wait for what a launcher left, kill what any other job left
	LeftoversWait = "wait"
	LeftoversKill = "kill"
	LeftoversFail = "fail" // kill, and the attempt has failed
)

// An Attempt is one that an earlier run started and whose end nobody recorded.
type Attempt struct {
	UniID    string
	Job      string
	Dir      string // its folder; may be gone
	PID      int    // 0 when the ledger does not have it
	PIDStart uint64
	Started  time.Time
	Grace    time.Duration
	Grant    gpu.Grant // what it holds, for a claim to be made again when its keeper has died
}

// How says how an attempt is to be ended.
type How int

const (
	Term How = iota // SIGTERM to the whole tree, SIGKILL after the grace
	Kill            // SIGKILL at once
)

// An Engine runs attempts. Its methods do not wait for processes; what happens
// comes over Events, in order for each attempt. It is used by one goroutine.
type Engine interface {
	// Launch asks for an attempt. Exactly one Ended follows, also when it could
	// not be started; a Running comes before it when it was.
	Launch(Launch)
	// Stop asks for the end of an attempt; why is kept with its status before the
	// first signal. An attempt that is over is no error. Kill overtakes Term.
	Stop(uniID, why string, how How)
	// Adopt asks what has become of an attempt of an earlier run. Running
	// follows when it lives, and one Ended when it is over, at once or later.
	Adopt(Attempt)
	// Attempt names the attempt whose tree has pid, or "".
	Attempt(pid int) string
	// OnGPU reports processes of an attempt that were seen on its own GPUs: what it
	// leaves in the background is judged by that.
	OnGPU(uniID string, pids []int)
	// Events is where everything arrives. It is closed by Close.
	Events() <-chan Event
	// Close lets go of the engine. What runs, runs on.
	Close() error
}

// A BrokenError is why an engine can start nothing more.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// An Event is something that happened to one attempt.
type Event struct {
	UniID      string
	Running    *Running
	Background *Background
	Stopping   *Stopping
	Ended      *Ended
	Warnings   []string // what a person should know, of no attempt in particular

	// Silent, where it is not nil, are all parts of the engine that do not answer now,
	// each in a sentence.
	Silent *[]string
}

// Background reports that the commands of an attempt have ended and that the
// attempt goes on as what they left. It may come again, for another process.
type Background struct {
	PID  int
	Text string // the process in words: "python 4711"
}

// Running says that the attempt's first process is there.
type Running struct {
	PID      int       `json:",omitempty"`
	PIDStart uint64    `json:",omitempty"` // kernel start time in clock ticks after boot
	Adopted  bool      `json:",omitempty"`
	Started  time.Time `json:",omitzero"`
}

// Stopping says that the engine itself is about to signal the attempt: its
// timeout is over. The engine waits for Ack, or a second, before the first
// signal, so that the ledger has the reason first.
type Stopping struct {
	Why string // state.WhyTimeout
	Ack func()
}

// Ended says that nothing of the attempt lives any more, or that it never began.
type Ended struct {
	ExitCode  int           `json:",omitempty"` // of the command that ended it; -1 when a signal did, or unknown
	Signal    string        `json:",omitempty"` // "SIGKILL", or ""
	Why       string        `json:",omitempty"` // the reason of a stop that came before the end: state.Why…, or ""
	Started   time.Time     `json:",omitzero"`
	At        time.Time     `json:",omitzero"`  // when the last command ended
	Elapsed   time.Duration `json:",omitempty"` // in CLOCK_BOOTTIME
	OOMKilled bool          `json:",omitempty"` // the kernel's count of OOM kills rose, and a SIGKILL that was not ours ended it
	Lost      bool          `json:",omitempty"` // no status is known
	Void      bool          `json:",omitempty"` // with Lost: no instruction of it ever ran
	Err       string        `json:",omitempty"` // why it could not be started, in words; "" when it was
	NoRoom    bool          `json:",omitempty"` // with Err: its record or its log could not be written, and nothing of it ran
	Report    string        `json:",omitempty"` // Tree: what the script wrote, "normal_exit" or "abnormal_exit", or ""
	LeftOver  int           `json:",omitempty"` // processes that had to be ended after the last command

	Unsaved     string `json:",omitempty"` // why its status record could not be written, in words; or ""
	LeftRunning string `json:",omitempty"` // why it is a failure that it left processes, in words; or ""
	Stuck       []int  `json:",omitempty"` // pids that even SIGKILL has not ended in 30 s; they may hold GPUs
}
