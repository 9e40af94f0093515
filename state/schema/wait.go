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
	Since    *time.Time `json:"since"`        // since when
	Until    *time.Time `json:"until"`        // when it is over, if time alone decides
	Expected *time.Time `json:"expected"`     // when the cluster expects it to be over, by its own estimate
	Reason   *string    `json:"queue_reason"` // why it waits in the queue of a cluster, as the cluster says
	Jobs     []string   `json:"jobs"`         // of this batch, that it waits for: the first 20
	User     *string    `json:"user"`         // who has what it waits for, if that is one user
	GPUs     []WaitGPU  `json:"gpus"`         // that it could ever use, and why it cannot use each now
}

// maxJobs is how many of the jobs that another waits for are named.
const maxJobs = 20

// On adds a job of this batch that is waited for, if it is one and there is room. It
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

// WaitCode says what kind of thing a job waits for.
type WaitCode string

// What jobs wait for.
const (
	WaitNeed          WaitCode = "need"            // jobs that it needs have not ended
	WaitQueue         WaitCode = "queue"           // its queue runs another job first
	WaitRetry         WaitCode = "retry"           // it failed, and the time of its retry has not come
	WaitMaxConcurrent WaitCode = "max_concurrent"  // as many jobs are running as may run at once
	WaitPool          WaitCode = "pool"            // a pool of the job file is used up
	WaitCPUs          WaitCode = "cpus"            // too few CPU cores are free
	WaitMemory        WaitCode = "memory"          // too little host memory is free
	WaitGPUs          WaitCode = "gpu"             // no GPU, or too few, can take it: gpus says why
	WaitKept          WaitCode = "kept"            // what it could use is kept for another job of this run
	WaitCourtesy      WaitCode = "courtesy"        // it is another user's turn
	WaitHostRule      WaitCode = "host_rule"       // a rule of the host's owner
	WaitHours         WaitCode = "hours"           // the run's own hours
	WaitPaused        WaitCode = "paused"          // a person paused the run
	WaitDraining      WaitCode = "draining"        // the run starts nothing more
	WaitBreaker       WaitCode = "breaker"         // jobs like it failed with the same error
	WaitEarlier       WaitCode = "earlier_attempt" // an attempt that an earlier run started has not ended
	WaitAllocation    WaitCode = "allocation"      // it would not end before the cluster's job in which the run is
	WaitCluster       WaitCode = "cluster"         // it is in the queue of a cluster
	WaitNoReadings    WaitCode = "no_readings"     // the GPUs cannot be read
)

// PlanCode says why a job would run, or why not.
type PlanCode string

// Why jobs run, or do not.
const (
	PlanNeverRan       PlanCode = "never_ran"
	PlanNoSuccess      PlanCode = "no_success"      // its last attempt did not succeed
	PlanUnknownEnd     PlanCode = "unknown_end"     // it started, and how it ended is unknown
	PlanCommandChanged PlanCode = "command_changed" // what it does has changed
	PlanOutputMissing  PlanCode = "output_missing"
	PlanInputChanged   PlanCode = "input_changed"
	PlanLogDeleted     PlanCode = "log_deleted"   // it has no outputs, and its log is gone
	PlanNeedsChanged   PlanCode = "needs_changed" // it needs other jobs than before
	PlanNeedRuns       PlanCode = "need_runs"     // a job that it needs runs
	PlanNeedNewer      PlanCode = "need_newer"    // a job that it needs succeeded after it
	PlanSimulated      PlanCode = "simulated"     // it succeeded on simulated GPUs only
	PlanForgotten      PlanCode = "forgotten"     // a person said gpurun forget
	PlanForced         PlanCode = "forced"        // --force
	PlanUpToDate       PlanCode = "up_to_date"
	PlanNotSelected    PlanCode = "not_selected" // left out by --only, --skip or --tag
	PlanNotNeeded      PlanCode = "not_needed"   // it runs only if a job that it needs fails
	PlanNeedMissing    PlanCode = "need_missing" // a job that it needs is left out and has not succeeded
	PlanPruned         PlanCode = "pruned"       // it was pruned, or needs a job that was
	PlanRunning        PlanCode = "running"      // an attempt of it is running now
)
