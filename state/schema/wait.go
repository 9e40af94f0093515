package schema

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// Wait is what a job waits for.
type Wait struct {
	Code     WaitCode   `json:"code"`
	Text     string     `json:"text"`
	Since    *time.Time `json:"since"`        // when it began to wait
	Until    *time.Time `json:"until"`        // end of the wait, if only time decides
	Expected *time.Time `json:"expected"`     // end of the wait, by the cluster's estimate
	Reason   *string    `json:"queue_reason"` // why it is queued, in the cluster's words
	Jobs     []string   `json:"jobs"`         // jobs in this batch that it waits for: the first 20
	User     *string    `json:"user"`         // the user who blocks it, if there is only one
	GPUs     []WaitGPU  `json:"gpus"`         // GPUs that it could ever use, and why it cannot use them now
}

// maxJobs is the maximum length of Wait.Jobs.
const maxJobs = 20

// On adds a job of this batch to the jobs waited for, unless job is "" or the list is full. It
// returns w.
func (w *Wait) On(job string) *Wait {
	if job != "" && len(w.Jobs) < maxJobs && !slices.Contains(w.Jobs, job) {
		w.Jobs = append(w.Jobs, job)
	}
	return w
}

// WaitGPU is why a job cannot use a GPU now.
type WaitGPU struct {
	Index int      `json:"index"`
	UUID  gpu.UUID `json:"uuid"`
	Code  gpu.Code `json:"code"`
	Text  string   `json:"text"`
}

// WaitCode is the kind of thing that a job waits for.
type WaitCode string

// What jobs wait for.
const (
	WaitNeed          WaitCode = "need"            // jobs that it needs have not ended
	WaitQueue         WaitCode = "queue"           // its queue runs another job first
	WaitRetry         WaitCode = "retry"           // it failed, and its retry is not due yet
	WaitMaxConcurrent WaitCode = "max_concurrent"  // the maximum number of jobs is already running
	WaitPool          WaitCode = "pool"            // a pool of the job file is used up
	WaitCPUs          WaitCode = "cpus"            // too few CPU cores are free
	WaitMemory        WaitCode = "memory"          // too little host memory is free
	WaitGPUs          WaitCode = "gpu"             // too few GPUs can run it; `gpus` lists the reasons
	WaitKept          WaitCode = "kept"            // resources it could use are reserved for another job of this run
	WaitCourtesy      WaitCode = "courtesy"        // it is another user's turn
	WaitHostRule      WaitCode = "host_rule"       // the host owner's rules forbid it
	WaitHours         WaitCode = "hours"           // outside the run's hours
	WaitPaused        WaitCode = "paused"          // a user paused the run
	WaitDraining      WaitCode = "draining"        // the run starts no more jobs
	WaitBreaker       WaitCode = "breaker"         // similar jobs failed with the same error
	WaitEarlier       WaitCode = "earlier_attempt" // an attempt started by an earlier run has not ended
	WaitAllocation    WaitCode = "allocation"      // it would outlast the cluster job that contains the run
	WaitCluster       WaitCode = "cluster"         // it is in the queue of a cluster
	WaitNoReadings    WaitCode = "no_readings"     // the GPUs cannot be read
)

// PlanCode is the reason why a job would run, or would not.
type PlanCode string

// Why jobs run, or do not.
const (
	PlanNeverRan       PlanCode = "never_ran"
	PlanNoSuccess      PlanCode = "no_success"      // its last attempt did not succeed
	PlanUnknownEnd     PlanCode = "unknown_end"     // it started, and how it ended is unknown
	PlanCommandChanged PlanCode = "command_changed" // what the job does has changed
	PlanOutputMissing  PlanCode = "output_missing"
	PlanInputChanged   PlanCode = "input_changed"
	PlanLogDeleted     PlanCode = "log_deleted"   // it has no outputs, and its log is gone
	PlanNeedsChanged   PlanCode = "needs_changed" // it now needs different jobs
	PlanNeedRuns       PlanCode = "need_runs"     // a job that it needs runs
	PlanNeedNewer      PlanCode = "need_newer"    // a job that it needs succeeded after it did
	PlanSimulated      PlanCode = "simulated"     // it succeeded or was pruned on simulated GPUs only
	PlanForgotten      PlanCode = "forgotten"     // a user ran gpurun forget
	PlanForced         PlanCode = "forced"        // --force was given
	PlanUpToDate       PlanCode = "up_to_date"
	PlanNotSelected    PlanCode = "not_selected" // left out by --only, --skip or --tag
	PlanNotNeeded      PlanCode = "not_needed"   // it runs only if a job that it needs fails
	PlanNeedMissing    PlanCode = "need_missing" // a job that it needs is left out and has not succeeded
	PlanPruned         PlanCode = "pruned"       // it was pruned, or it needs a pruned job
	PlanRunning        PlanCode = "running"      // an attempt of it is running now
)
