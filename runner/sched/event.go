package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/runner/sched/stall"
	"gpurun/state"
	"gpurun/state/schema"
)

// Now is the time of an event. Durations and limits use Boot, which clock changes do not affect;
// Wall is for display and the ledger.
type Now struct {
	Boot time.Duration // CLOCK_BOOTTIME
	Wall time.Time     // UTC
}

// An Event is something that happened outside the core, or a user's request. Its method is the
// core's response.
type Event interface{ on(c *Core) }

// Looked brings evidence from the file system about the jobs whose last attempt succeeded, by job
// ID. It comes before Began, if at all.
type Looked struct{ Evidence map[int]Evidence }

// Began is the first event of a run. The core answers with an Adopt for every attempt that the
// history left open, and starts nothing until each has been answered with Queued, Started or Ended.
type Began struct{}

// Observed brings a reading of devices. A Quick one covers only their memory.
type Observed struct {
	gpu.Observation
	Quick bool
}

// ClaimsChanged brings the claims and wishes of other runs on this host after a change, without a
// reading.
type ClaimsChanged struct {
	Claims []gpu.Claim
	Wishes []gpu.Wish
}

// Prepared reports that Prepare succeeded: the claim is held and the record is created. Start holds
// what only the edge knows: UniID, Log, Commands, Inputs. The core completes and records it. Claims
// are the other runs' claims, read once this attempt's claim was visible to those runs; nil if
// nothing was claimed. If one of them conflicts with the grant, the core abandons the attempt, as
// it does for a PrepareFailed with Rival set.
type Prepared struct {
	Job    int
	Start  state.Fact
	Claims []gpu.Claim
}

// Gathered reports that a gathering claim was made or, with Failed set, that it could not be made.
// Claims are the other runs' claims at that time.
type Gathered struct {
	UniID  string
	Failed bool
	Claims []gpu.Claim
}

// PrepareFailed reports that Prepare failed. A lost race for a GPU is not a failure of the job and
// spends no retry; any other error, for example that a log could not be created, is a failure.
type PrepareFailed struct {
	Job    int
	Reason string
	Input  bool // an input of the job matches nothing
	Rival  bool // the GPU could not be claimed, or, without a Reason, another run took it first
}

// Started reports that an attempt's process exists.
type Started struct {
	UniID    string
	PID      int
	PIDStart uint64
	Host     string     // where it runs, if that is not this host
	Grant    *gpu.Grant // its grant, if the engine chose the GPUs
	At       time.Time  // when it began there, by the clock of that host
}

// Queued reports that an attempt waits in the queue of a cluster, and why.
type Queued struct {
	UniID, JobID, Reason string
	Expected             time.Time // start that the cluster expects; zero if unknown
}

// Backgrounded reports that an attempt's commands have ended but processes they left keep
// it running: PID is one of them, and What describes them.
type Backgrounded struct {
	UniID, What string
	PID         int
}

// Suspended reports that a cluster has suspended or resumed a running attempt.
type Suspended struct {
	UniID string
	Is    bool
}

// StopAnnounced reports that the engine is about to signal an attempt because of its
// timeout, or for a resize.
type StopAnnounced struct{ UniID, Why string }

// Declined reports that the engine did not ask an attempt to save its work, so the attempt
// continues.
type Declined struct{ UniID, Why string }

// Ended reports the raw end of an attempt and its evidence; the core decides what they mean.
type Ended struct {
	UniID string
	state.End
	PID      int    // of its first process, if it ended before a Started; or 0
	Cause    Cause  // according to the log, the result file or the kernel
	Line     string // for a failure, the log line that explains it
	Failed   string // why it failed despite exit 0: "output X missing", "abnormal_exit"; or ""
	Full     string // for a failure: a message that names the full disk it writes to; or ""
	Whole    bool   // it has outputs, and all of them exist
	Good     bool   // the script reported normal_exit: a success regardless of the exit status
	Metrics  map[string]any
	Measured map[string]string // metrics that were read, with the rule for each
	Points   []state.Point     // reported since the last ProgressSampled
	Rule     string            // the rule by which Points were read
	LogTo    int64             // where its part of the log ends; 0 if unknown
	Evidence Evidence          // if an earlier run started it: what the file system shows now
	Warning  string            // for the summary; affects no decision
}

// A Cause is what ended a failed attempt, if known.
type Cause int

const (
	NoCause       Cause = iota // none of the causes below
	GPUMemory                  // GPU memory ran out
	HostMemory                 // the kernel killed it because host memory ran out
	DeviceFault                // the signature of a fault of its GPU
	OutputMissing              // a declared output is missing, despite exit 0
)

// Published reports that a Quarantine is visible to readings.
type Published struct{ UUID gpu.UUID }

// ProgressSampled answers SampleProgress.
type ProgressSampled struct{ Work []stall.Work }

// Woken reports that the time requested with Wake has come.
type Woken struct{}

// StateFailed reports why no job can start any more: the ledger cannot be written, or a
// cluster's nodes cannot see the state folder.
type StateFailed struct{ Err string }

// StopRequested is a user's request to stop.
type StopRequested struct {
	Jobs  []int  // cancel these; no retry in this run, but they run next time
	GPU   *int   // or end and requeue the attempts on the GPU with this index, without spending a retry, and avoid the GPU from then on
	Drain bool   // or start no more jobs, and withdraw Jobs from a cluster's queue
	All   bool   // or stop the whole run, which interrupts its jobs
	Kill  bool   // with All: SIGKILL immediately
	Why   string // for display: "Ctrl-C", "SIGTERM", "gpurun stop"
}

// ForgetRequested makes jobs' last successes stop counting, from the next run on.
type ForgetRequested struct{ Jobs []int }

func (ev ForgetRequested) on(c *Core) {
	for _, n := range ev.Jobs {
		id := int32(n)
		if r := c.last(id); r != nil && !r.Forgotten {
			c.record(c.file(id), id, ForgetFact(c.name(id), c.b.Jobs[id].Key.String(), c.now))
			c.forgotten[id] = true
		}
	}
}

// DoneRequested records jobs as succeeded without running them. Jobs that are running or
// have succeeded stay as they are.
type DoneRequested struct {
	Jobs    []int
	Without bool // count them as done even without their outputs
}

func (ev DoneRequested) on(c *Core) {
	facts := map[int]state.Fact{}
	for _, n := range ev.Jobs {
		f := DoneFact(c.name(int32(n)), c.b.Jobs[n].Key.String(), c.now, ev.Without)
		if ev.Without && c.evidence[n].MissingOutput != "" {
			f.Confirm(c.last(int32(n)))
		}
		facts[n] = f
	}
	for i, done := range c.applyEnds(facts) {
		if done {
			c.set(int32(i), succeeded)
		}
	}
	// Jobs that were going to run only because these jobs would run may be up to date now.
	again := make([]bool, len(c.jobs))
	for id, j := range c.each {
		again[id] = j.phase == pending && j.attempt == 0 && j.reason.code == schema.PlanNeedRuns
	}
	if slices.Contains(again, true) {
		c.judgeAgain(again)
	}
	c.recount()
}

// ForgetFact returns the fact that a job's last success no longer counts.
func ForgetFact(job, key string, now Now) state.Fact {
	return state.Fact{Kind: state.KindForget, Time: now.Wall, Job: job, Key: key}
}

// DoneFact returns the fact that a job's work was done outside gpurun. If without is set,
// the job counts as done even if outputs are missing.
func DoneFact(job, key string, now Now, without bool) state.Fact {
	by := state.ByDone
	if without {
		by = state.ByDoneWithout
	}
	return state.Fact{
		Kind: state.KindEnd, Time: now.Wall, Job: job, Key: key,
		State: state.Succeeded, By: by,
	}
}

// TakeOverRequested records another ledger's successes for jobs that are not running, and judges
// these jobs again.
type TakeOverRequested struct {
	Facts    map[int]state.Fact // by job
	Evidence map[int]Evidence
}

// An Action is something to do outside the core. Actions are performed in the order returned by
// Step.
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
	Timeout time.Duration // 0 for none
	Cores   string        // to bind the job to, for affinity; "" for any
	Note    string        // for a warning: what could not be considered in judging the GPUs; usually ""
}

// Discard: undo a Prepare; the attempt will not start.
type Discard struct{ UniID string }

// Yield: release these GPUs from the claim of an attempt that has ended. Until they are yielded,
// they stay claimed for the next attempt on them. Each GPU that a launched attempt gives back is
// yielded exactly once.
type Yield struct {
	UniID string
	UUIDs []gpu.UUID
}

// Offer: let another run have a GPU of an attempt that has ended, instead of this run's next
// attempt. The GPU stays claimed until it is yielded.
type Offer struct {
	UniID string
	UUID  gpu.UUID
	To    string // ID of the run
}

// Wish: publish this run's waiting requests; if there are none, withdraw the wish.
type Wish struct{ gpu.Wish }

// Gather: make a gathering claim on a GPU, under its own UniID. Answered by Gathered.
type Gather struct {
	UniID string
	Job   string // name of the job that the GPU is for
	Grant gpu.Grant
}

// Ungather: end a gathering claim.
type Ungather struct{ UniID string }

// Launch: start the attempt, whose start is already in the ledger.
type Launch struct {
	Job        int
	UniID      string
	Key, Needs string // as in its start fact
	Rank       int    // rank of the job among all jobs
}

// End: stop an attempt.
type End struct {
	UniID string
	Why   string // state.Why…
	Kill  bool

	Unbegun bool // stop it only if it still waits in the queue of a cluster
}

// Hold: keep an attempt in the cluster's queue, or release it.
type Hold struct {
	UniID   string
	Release bool
}

// Limit: bound the attempts that a cluster runs concurrently; 0 jobs and -1 GPUs mean any number.
type Limit struct{ Jobs, GPUs int }

// Save: ask an attempt to save its work for a resize, and stop it after a while. Answered by
// StopAnnounced or Declined.
type Save struct {
	UniID  string
	Signal string        // "USR1"
	Wait   time.Duration // between the signal and the stop
}

// Adopt: ask the engine about an attempt of an earlier run. Job is -1 if the files no longer have it.
type Adopt struct {
	Job     int
	Attempt state.Attempt
}

// Warn: show the user a warning immediately.
type Warn struct{ Text string }

// Ack: let the engine proceed with the stop that it announced with StopAnnounced.
type Ack struct{ UniID string }

// Read: take a reading, answered by Observed. Without UUIDs it covers all devices with their
// processes. With UUIDs it covers only those devices: fully if Processes is set, otherwise only
// their free memory, answered with Quick set.
type Read struct {
	UUIDs     []gpu.UUID
	Processes bool
}

// SampleProgress: sample the CPU time and output of these attempts. Answered by ProgressSampled.
type SampleProgress struct{ UniIDs []string }

// Quarantine: publish a quarantine. Answered by Published.
type Quarantine struct{ gpu.Quarantine }

// Wake: send Woken at this time (CLOCK_BOOTTIME). It replaces the previous Wake; 0 cancels
// it.
type Wake struct{ At time.Duration }

// Finish: the run is over.
type Finish struct {
	GaveUp bool         // because of max_wait (exit 124) or --no-wait (exit 75)
	Lost   []state.Loss // GPU time lost since the last start
}

func (Record) action()         {}
func (Prepare) action()        {}
func (Discard) action()        {}
func (Yield) action()          {}
func (Offer) action()          {}
func (Wish) action()           {}
func (Gather) action()         {}
func (Ungather) action()       {}
func (Launch) action()         {}
func (End) action()            {}
func (Hold) action()           {}
func (Limit) action()          {}
func (Save) action()           {}
func (Adopt) action()          {}
func (Warn) action()           {}
func (Ack) action()            {}
func (Read) action()           {}
func (SampleProgress) action() {}
func (Quarantine) action()     {}
func (Wake) action()           {}
func (Finish) action()         {}
