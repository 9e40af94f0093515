package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Report is what `gpurun report --json` prints: everything known about a batch. Values of
// variables, arguments and parameters named like secrets are ***.
type Report struct {
	Head
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"`    // the live run, else the last one; null if there was none
	Counts   map[state.Phase]int `json:"counts"` // jobs by state, as in `gpurun status`
	Outcome  Outcome             `json:"outcome"`
	Tally    Tally               `json:"tally"`
	Line     string              `json:"line"`   // as in `gpurun status`
	Runs     []RunRow            `json:"runs"`   // oldest first, as in history
	Jobs     []ReportJob         `json:"jobs"`   // in the order of the job files, followed by jobs that were removed from them
	Config   map[string]string   `json:"config"` // config values shared by all jobs that have a config
	Failures []ReportFailure     `json:"failures"`
	Usage    *BatchUsage         `json:"usage"`    // as in `gpurun usage FILE`
	Readings *Readings           `json:"readings"` // null if there are none
	Results  any                 `json:"results"`  // as in `gpurun results --json`; null if nothing was measured
	Copies   any                 `json:"copies"`   // the table of results as LaTeX, Markdown and CSV; null if nothing was measured
	Curves   []ReportCurve       `json:"curves"`   // of values reported with a step
	Warnings []Problem           `json:"warnings"`
}

// ReportJob is a job with all of its attempts and the source of its results.
type ReportJob struct {
	Job                        // without the last attempt; without the GPUs in wait
	Former   bool              `json:"former"`   // it was removed from the job files, does something else now, or had other -p values
	Failure  *int              `json:"failure"`  // index of its group in `failures`
	Config   map[string]string `json:"config"`   // config values that not all jobs share, as of its last attempt
	Inputs   []state.Input     `json:"inputs"`   // as they were when its last attempt began
	Attempts []Attempt         `json:"attempts"` // oldest first, from all runs; without metrics
}

// ReportFailure is a group of jobs that failed with the same error.
type ReportFailure struct {
	Alike
	Lines []string `json:"lines"` // the last lines of the log; empty if it is gone
}

// Readings are the memory and utilization of the GPUs while a run was alive, in steps of equal
// length.
type Readings struct {
	Step float64         `json:"step_seconds"`
	Time []time.Time     `json:"time"` // start of each step, with gaps where no run was alive
	GPUs []ReadingsOfGPU `json:"gpus"`
}

// ReadingsOfGPU are the readings of one GPU, with a value for each step: the maximum memory, and the
// mean utilization.
type ReadingsOfGPU struct {
	Index  int          `json:"index"`
	UUID   gpu.UUID     `json:"uuid"`
	Name   *string      `json:"name"`
	Total  *gpu.Bytes   `json:"memory_total_bytes"`
	Used   []*gpu.Bytes `json:"memory_used_bytes"`
	Ours   []*gpu.Bytes `json:"memory_ours_bytes"` // the part used by the batch's jobs
	Util   []*float64   `json:"utilization_percent"`
	Jobs   []int        `json:"jobs"`   // number of the batch's jobs on it
	Others []bool       `json:"others"` // whether anyone else used it
	Waits  []GPUWait    `json:"waits"`  // when jobs waited but could not use it
}

// GPUWait is a period during which a job waited but could not use a GPU.
type GPUWait struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Code gpu.Code  `json:"code"` // why the GPU was unusable or, if usable, why the first job waited: a wait.code, host_memory or too_few_gpus
	User *string   `json:"user"` // the user who caused it
}

// ReportCurve is the series of values that an attempt reported for a metric, thinned out if it is
// long.
type ReportCurve struct {
	Job    string `json:"job"`
	UniID  string `json:"uni_id"`
	Pruned bool   `json:"pruned"` // it was stopped early, after the last step in the curve
	Curve
}
