package engine

import (
	"os"
	"time"

	"github.com/rs/zerolog"

	"gpurun/state"
)

// A Kind is one way to run attempts, selected by name. Trace, Looker and Stray open no engine:
// they read an attempt's folder and this host's processes, and change nothing.
type Kind interface {
	// Abilities describes its engines.
	Abilities() Abilities
	// Open returns an engine that can adopt the attempts of earlier runs in Config.Dir.
	Open(Config) (Opened, error)
	// Trace reads an attempt's start from its folder, for a ledger that lost it. It returns an
	// error if a process of the attempt is running and nothing identifies the attempt's job.
	Trace(dir, uniID string) (state.Trace, error)
	// Looker returns a function that reports the current state of the attempt in a folder, or how
	// it ended.
	Looker() func(dir, uniID string) Found
	// Stray looks for a process that still runs attempts but cannot be asked about them. Its folder
	// is either dir, removed since the process started, or another folder of the same job file, for
	// which same returns true. Stray returns the process's pid and folder. The pid is 0 if there is
	// no such process.
	Stray(dir string, same func(dir string) bool) (pid int, at string)
}

// Abilities lists the differences between kinds of engines.
type Abilities struct {
	Name   string // in the ledger, and on the command line
	Places bool   // the engine chooses the host and GPUs of an attempt, which gpurun cannot see
	Queues bool   // an attempt may wait in a queue after its launch
}

// Opened is an engine with its optional parts.
type Opened struct {
	Engine
	Claims Claims // nil if it makes none
	Trees  Trees  // nil if its attempts run elsewhere
	Queue  Queue  // nil without Abilities.Queues
}

// Config configures an engine.
type Config struct {
	Dir     string // batch folder; "" for an engine that only claims GPUs
	Log     zerolog.Logger
	Claims  []string     // where host-wide claims are made, see claim.Roots; empty for no claims
	Run     string       // this run's ID, which its claims and its wish carry
	Go      func(func()) // starts a goroutine and handles its panics; nil for a plain go statement
	Environ []string     // shared by all attempts
	Bound   bool         // attempts end with their runner, even if it is killed, because some clusters leave a job's processes running
	Cluster
}

// Cluster configures an engine that places attempts.
type Cluster struct {
	Options  map[string]string // settings.cluster
	Poll     time.Duration     // minimum interval between reads of the attempts' files; 0 for 5 s
	Patience time.Duration     // after which smaller jobs may not overtake one that waits for max_gpus_total
	Lock     *os.File          // held from listing the user's cluster jobs until one is submitted; nil for no lock. Close closes it
	Leave    <-chan struct{}   // closed when Close must not wait; nil for never
}

// Found is the state of an attempt as seen without a run. If neither Ended nor PID is set, no end
// is recorded, and none of its processes is alive on this host.
type Found struct {
	Ended *state.End // its recorded end, if it is over
	// PID is a live process of its tree. If all have ended but its keeper has yet to record the
	// end, PID is the first process of its last command. Otherwise, PID is 0.
	PID    int
	Keeper int    // pid of the keeper it runs under; 0 if that is gone
	Began  bool   // whether any of its commands has begun
	Host   string // where it runs, if known and not this host
	// Original is the batch folder that the attempt runs for, if the folder that was looked at is a
	// copy made while the attempt was running; else "".
	Original string
}
