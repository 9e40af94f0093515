package sched

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// An Action is something to do outside the core, in the order given.
type Action interface{ action() }

// Record: append the fact to the ledger of the batch's file, then pass it to the sinks.
type Record struct {
	File int
	Job  int // -1 if it concerns no job of this batch
	Fact state.Fact
}

// Prepare: claim the grant and create everything that a start needs. Answered by Prepared
// or PrepareFailed.
type Prepare struct {
	Job     int
	Attempt int
	Grant   gpu.Grant
	Note    string // for a warning: what could not be considered in judging the GPUs; usually ""
}

// Discard: release what Prepared brought; the attempt will not start.
type Discard struct{ UniID string }

// Yield: release these GPUs from the claim of an attempt that is over. Until then they
// stay claimed, for the next attempt on them. Each GPU of each attempt that was launched
// and has released its GPUs is yielded once.
type Yield struct {
	UniID string
	UUIDs []gpu.UUID
}

// Launch: have the engine start the attempt. Its start is already in the ledger.
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

// Adopt: ask the engine about an attempt of an earlier run.
type Adopt struct{ Attempt state.Attempt }

// Warn: tell the user something right away.
type Warn struct{ Text string }

// Ack: let the engine proceed with the stop that StopAnnounced brought.
type Ack struct{ UniID string }

// Read: take a reading, answered by Observed. Without UUIDs it covers all devices
// with their processes. With UUIDs it covers only those: with Processes, fully;
// otherwise only their free memory, answered with Quick set.
type Read struct {
	UUIDs     []gpu.UUID
	Processes bool
}

// Wake: send Woken at this time (CLOCK_BOOTTIME). It replaces the previous Wake; 0 cancels
// it.
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
