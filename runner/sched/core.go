package sched

import (
	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Evidence is what the file system says of a job whose last end was a success.
// The edge gathers it once, before the core is made.
type Evidence struct {
	MissingOutput string // an output that is not there
	ChangedInput  string // an input that is newer than the job's start, with other content
	LogDeleted    bool   // the job file names the log, the job has no outputs, the log is gone
}

// Options are what the command line asks of a run.
type Options struct {
	Selected func(id int) bool // nil for all: --only, --skip, --tag
	Forced   func(id int) bool // nil for none: --force
	NoWait   bool              // finish as soon as nothing more can start at once
	CPUs     int               // cores of this run; 0 for no limit
	Memory   gpu.Bytes         // host memory of this run; 0 for no limit
	UID      int
}

// Core is the scheduler's state. One goroutine owns it.
type Core struct{}

// New makes the core of a run. history is what the ledgers said; the core takes
// it over and keeps it up to date. pool is nil where no device is there.
func New(b *jobspec.Batch, history *state.History, evidence func(id int) Evidence, pool *gpu.Pool, opts Options) *Core {
	panic("unwritten")
}

// Step takes one event and says what to do.
func (c *Core) Step(now Now, ev Event) []Action { panic("unwritten") }

// Verdict says why a job runs or not, before anything has started: for plan.
type Verdict struct {
	Run    bool
	Reason string // "never ran", "failed (exit 1)", "command changed", …; "up to date", "not selected"
}

// Verdict is valid for every job of the batch from New on.
func (c *Core) Verdict(id int) Verdict { panic("unwritten") }

// Why says in words what a job that has not started waits for, from the same
// tests that starting uses; "" when it waits for nothing.
func (c *Core) Why(now Now, id int) string { panic("unwritten") }

// Phase is where a job is now.
func (c *Core) Phase(id int) state.Phase { panic("unwritten") }

// Snapshot is what a person sees now.
func (c *Core) Snapshot(now Now) state.Snapshot { panic("unwritten") }
