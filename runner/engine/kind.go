package engine

import (
	"os"
	"time"

	"github.com/rs/zerolog"

	"gpurun/state"
)

// A Kind is one way to run attempts, which the command line knows by name. What it says
// of an attempt without opening an engine is what its folder and the host show, and asking
// changes nothing.
type Kind interface {
	// Abilities says what its engines do.
	Abilities() Abilities
	// Open returns an engine that reaches what earlier runs left in Config.Dir.
	Open(Config) (Opened, error)
	// Trace reads what an attempt's folder says of its start, for a ledger that lost it.
	// It returns an error if something of the attempt is running and nothing identifies it.
	Trace(dir, uniID string) (state.Trace, error)
	// Looker returns a function that finds out how the attempt in a folder is doing or how
	// it ended. It is true for the moment; the next run finds out for itself.
	Looker() func(dir, uniID string) Found
	// Stray returns the pid of what still runs attempts whose folder was removed, or 0.
	Stray(dir string) int
}

// Abilities are in what the kinds of engines differ.
type Abilities struct {
	Name   string // in the ledger, and on the command line
	Places bool   // the engine chooses where an attempt runs, and its GPUs: gpurun cannot see them
	Queues bool   // an attempt may wait for its turn after its launch
}

// Opened is an engine, with what it has if gpurun chooses the GPUs.
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
	Environ []string     // that all attempts share
	Bound   bool         // attempts end with their runner, killed or not: a cluster's job ends with it, and not on every site all processes
	Cluster
}

// Cluster is what only an engine that places needs to know.
type Cluster struct {
	Options map[string]string // settings.cluster
	Poll    time.Duration     // how often to look at the attempts' files, at most; 0 for 5 s
	Lock    *os.File          // locked from the list of all the user's jobs there until one is submitted; nil for no lock. Close closes it
	Leave   <-chan struct{}   // closed when Close is to wait for nothing; nil for never
}

// Found is what can be seen of an attempt without a run. If neither Ended nor PID is set, no end
// is on record, and nothing of it is alive on this host.
type Found struct {
	Ended  *Ended // its recorded end, if it is over
	PID    int    // a live process of its tree, the first if possible; or 0
	Keeper int    // pid of the keeper it runs under; 0 if that is gone
	Began  bool   // some command of it began
	Host   string // where it runs, if that is known and not here
}
