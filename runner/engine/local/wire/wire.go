// Package wire defines how a runner and its keepers communicate: messages over a socket, and
// records on disk for when either side is gone.
package wire

import (
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// Version rises with each change after which an older side would misread a message.
const Version = 3 // since 2, attempts have slots in journals; since 3, ends have the format of records

// Bound is the argument of a keeper whose attempts end with their runner.
const Bound = "bound"

// A Message goes from a runner to a keeper, or from a keeper to a runner. Both sides ignore ops and
// fields that they do not support, because their builds may differ when a newer gpurun adopts jobs
// of an older one. A runner acts on no message of a later version than its own.
type Message struct {
	Version int             `json:"v,omitempty"` // 0 from a side that does not send it
	Op      string          `json:"op"`
	UniID   string          `json:"uni_id,omitempty"`
	Launch  *engine.Launch  `json:"launch,omitempty"`
	Why     string          `json:"why,omitempty"`
	How     engine.StopMode `json:"how,omitempty"`
	Signal  string          `json:"signal,omitempty"`  // Save: "USR1"
	Wait    time.Duration   `json:"wait_ns,omitempty"` // Save: time until the stop
	Running *engine.Running `json:"running,omitempty"`
	PIDs    []int           `json:"pids,omitempty"`
	Ended   *state.End      `json:"ended,omitempty"`

	Background *engine.Background `json:"background,omitempty"`

	Claim    *Claim      `json:"claim,omitempty"`
	Claims   []gpu.Claim `json:"claims,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
	Err      string      `json:"err,omitempty"`
}

// A Claim asks a keeper to claim an attempt's grant.
type Claim struct {
	Job   string     `json:"job"`
	Grant gpu.Grant  `json:"grant"`
	Roots []string   `json:"roots"`           // where claims are made; see claim.Roots
	Run   string     `json:"run,omitempty"`   // ID of the run
	To    string     `json:"to,omitempty"`    // with Offer: the run that may have the grant's devices
	Left  bool       `json:"left,omitempty"`  // with Stand: the command has ended, and left the processes that name the claim
	Trees []procs.ID `json:"trees,omitempty"` // running processes that hold the claim and are not the keeper's children
}

// Ops to the keeper.
const (
	Environ   = "environ" // set the environment that all later launches share
	Launch    = "launch"
	Stop      = "stop"
	Save      = "save"    // send Signal to processes that catch it, and stop the attempt after Wait; answered by Stopping or Declined
	Suspend   = "suspend" // stop its processes until Resume
	Resume    = "resume"
	Adopt     = "adopt"    // answered by Running, Unknown, or later by Ended
	Ack       = "ack"      // the ledger has the reason for a Stopping
	OnGPU     = "on-gpu"   // these processes were seen on the attempt's GPUs
	MakeClaim = "claim"    // answered by Claimed
	Stand     = "stand"    // binds a claim to processes that the sender runs itself
	Offer     = "offer"    // lets another run take part of the claim of an ended attempt
	Withdraw  = "withdraw" // ends a claim or part of it; answered by Withdrawn
)

// Ops from the keeper.
const (
	Running    = "running" // omitted if Ended follows soon; Ended then includes it
	Step       = "step"    // the next command is running
	Stopping   = "stopping"
	Declined   = "declined"   // why the attempt was not asked to save its work
	Background = "background" // the commands have ended, but processes they left keep running
	Ended      = "ended"
	Unknown    = "unknown"   // no such attempt; look at its record
	Claimed    = "claimed"   // with other runs' claims, or why claiming failed
	Withdrawn  = "withdrawn" // no other run sees the claim any more
	Warn       = "warn"      // about the keeper's own work
)

// AckWait is how long a keeper waits for an Ack before it sends the first signal.
const AckWait = time.Second
