// Package sched decides. Step takes what happened and the time, and returns what
// is to be done; nothing in here reads a clock, a file, a device or a process,
// nothing is random but what a seed passed in makes so, and no map is ranged over
// to decide anything. What happened to a job is said in Facts, and apply(Fact)
// alone changes what they can change, live and replayed.
//
// The words: a job is ready when its needs and its queue let it run, it is
// granted GPUs, prepared (the edge claims them and makes what a start needs),
// started, and ended. A job backs off while it waits for its retry. A head is
// the first ready job that found no GPU; it is passed by smaller ones until its
// patience is over, then GPUs are kept for it.
package sched

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Now is the time of an event. Durations and limits count in Boot, which no
// change of the clock moves; Wall is for people and for the ledger.
type Now struct {
	Boot time.Duration // CLOCK_BOOTTIME
	Wall time.Time     // UTC
}

// An Event is something that happened outside.
type Event interface{ event() }

// Began is the first event of a run. The core answers with Adopt for every
// attempt that the history left open, and starts nothing else before each of
// them has been answered with Running or Ended.
type Began struct{}

// Snapshot brings a reading of devices; Quick is one of their memory alone.
type Snapshot struct {
	Snap  gpu.Snapshot
	Quick bool
}

// Prepared says that Prepare has succeeded: claim held, record made. Start
// holds what the edge knows and the core does not: UniID, Log, Commands,
// Inputs. The core completes it and records it. Claims are what other runs held
// when this attempt's claim was there for them to see; nil when nothing was
// claimed. One that stands against the grant makes the core discard the attempt,
// as if it had been Refused to a rival.
type Prepared struct {
	Job    int
	Start  state.Fact
	Claims []gpu.Claim
}

// Refused says that Prepare has failed. Lost races for a GPU are no failure and
// spend no retry; what the edge could not make at all (its log, its config file) is.
type Refused struct {
	Job    int
	Reason string
	Rival  bool // another run was quicker: look again
}

// Running says that an attempt's process is there.
type Running struct {
	UniID    string
	PID      int
	PIDStart uint64
	Adopted  bool
}

// Background reports that the commands of an attempt have ended and that it goes on
// as what they left, What in words.
type Background struct{ UniID, What string }

// Stopping says that the engine is about to signal an attempt for its timeout.
type Stopping struct{ UniID, Why string }

// Ended says that an attempt is over, raw: what it means is decided here.
type Ended struct {
	UniID    string
	ExitCode int    // -1 with a signal, or unknown
	Signal   string // "SIGKILL", or ""
	Why      string // reason of a stop that the engine knows of, or ""
	At       time.Time
	Seconds  float64
	OOM      bool   // log, result file or kernel say so
	Lost     bool   // no status is known
	Void     bool   // with Lost: nothing of it ever ran
	Err      string // it could not be started, in words
	Line     string // what the log of a failure says of its cause
	Failed   string // reasons to fail in spite of exit 0: "output X missing", "abnormal_exit"; "" for none
	Good     bool   // the script said normal_exit: a success whatever the exit status
	Metrics  map[string]any
	Peak     gpu.Bytes
	Stuck    bool // something of it may still hold its GPUs: they are not given back
	LeftOver int  // processes that had to be ended after its last command

	LeftRunning string // why it is a failure that its commands left processes running; "" for none

	Warning string // worth a line in the summary; decides nothing
}

// Tick says that the time asked for with Wake has come.
type Tick struct{}

// Stop is what a person asks for.
type Stop struct {
	Jobs  []int  // cancel these; not retried, run next time
	GPU   *int   // or end and requeue what stands on this index, uncharged, and leave it alone from then on
	Drain bool   // or start nothing more
	All   bool   // or stop the whole run: interrupted
	Kill  bool   // with All: SIGKILL at once
	Why   string // for the view: "Ctrl-C", "SIGTERM", "gpurun stop"
}

// StateFailed says that the ledger cannot be written: nothing more starts.
type StateFailed struct{ Err string }

func (Began) event()       {}
func (Snapshot) event()    {}
func (Prepared) event()    {}
func (Refused) event()     {}
func (Running) event()     {}
func (Background) event()  {}
func (Stopping) event()    {}
func (Ended) event()       {}
func (Tick) event()        {}
func (Stop) event()        {}
func (StateFailed) event() {}

// An Action is something to be done outside, in the order given.
type Action interface{ action() }

// Record: append the fact to the ledger of the batch's file, then show it to the sinks.
type Record struct {
	File int
	Job  int // -1 when it is of no job of this batch
	Fact state.Fact
}

// Prepare: claim the grant and make everything that a start needs; answered by
// Prepared or Refused.
type Prepare struct {
	Job     int
	Attempt int
	Grant   gpu.Grant
	Note    string // what the GPUs were judged without, for a warning; usually ""
}

// Discard: give back what Prepared brought; the attempt will not start.
type Discard struct{ UniID string }

// Yield: give up what the claim of an attempt that is over still holds of these
// GPUs. Until then they are claimed, for the next attempt on them. Each GPU of each
// attempt that was launched and has given back its GPUs is yielded once.
type Yield struct {
	UniID string
	UUIDs []gpu.UUID
}

// Launch: have the engine start it. Its start is in the ledger before.
type Launch struct {
	Job   int
	UniID string
}

// End: have the engine stop an attempt.
type End struct {
	UniID string
	Why   string // state.Why…
	Kill  bool
}

// Adopt: ask the engine what has become of an attempt of an earlier run.
type Adopt struct{ Attempt state.Attempt }

// Warn: say at once what a person should know.
type Warn struct{ Text string }

// Ack: let the engine go on with the stop that Stopping announced.
type Ack struct{ UniID string }

// Read: take a reading, answered by Snapshot. Without UUIDs it is one of all
// devices, with their processes. With UUIDs it is one of these: a quick one, of
// their free memory and no process list, answered with Quick; or, with
// Processes, a full one, answered without.
type Read struct {
	UUIDs     []gpu.UUID
	Processes bool
}

// Wake: send Tick at this time (CLOCK_BOOTTIME). It replaces the Wake before; 0 asks for none.
type Wake struct{ At time.Duration }

// Finish: the run is over.
type Finish struct {
	GaveUp bool // max_wait, or --no-wait: exit 124 or 75
}

func (Record) action()  {}
func (Prepare) action() {}
func (Discard) action() {}
func (Yield) action()   {}
func (Launch) action()  {}
func (End) action()     {}
func (Adopt) action()   {}
func (Warn) action()    {}
func (Ack) action()     {}
func (Read) action()    {}
func (Wake) action()    {}
func (Finish) action()  {}
