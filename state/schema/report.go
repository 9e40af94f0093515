package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Report is what `gpurun report --json` prints: all that is known of a batch. Values of
// variables, arguments and parameters whose names say that they are secret are ***.
type Report struct {
	Head
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"`    // the live run, else the last one; null if there was none
	Counts   map[state.Phase]int `json:"counts"` // jobs by state, as in status
	Outcome  Outcome             `json:"outcome"`
	Tally    Tally               `json:"tally"`
	Line     string              `json:"line"`   // the state line, as in status
	Runs     []RunRow            `json:"runs"`   // oldest first, as in history
	Jobs     []ReportJob         `json:"jobs"`   // in the order of the job files, then those that are no longer there
	Config   map[string]string   `json:"config"` // what the configs of all jobs that have one agree in
	Failures []ReportFailure     `json:"failures"`
	Usage    *BatchUsage         `json:"usage"`    // as in usage FILE
	Readings *Readings           `json:"readings"` // null if there are none
	Results  any                 `json:"results"`  // as in results --json; null if nothing was measured
	Copies   any                 `json:"copies"`   // the table of results as LaTeX, Markdown and CSV; null if nothing was measured
	Curves   []ReportCurve       `json:"curves"`   // by step
	Warnings []Problem           `json:"warnings"`
}

// ReportJob is a job with all its attempts and where its results come from.
type ReportJob struct {
	Job                        // without the last attempt; wait is without the GPUs
	Former   bool              `json:"former"`   // it is no longer in the job files, does something else now, or had other -p values
	Failure  *int              `json:"failure"`  // its group: index in failures
	Config   map[string]string `json:"config"`   // of its last attempt: where it differs from others
	Inputs   []state.Input     `json:"inputs"`   // as they were when its last attempt began
	Attempts []Attempt         `json:"attempts"` // oldest first, of all runs; without metrics
}

// ReportFailure is a group of jobs that failed with the same error.
type ReportFailure struct {
	Alike
	Lines []string `json:"lines"` // the last ones of the log; empty if it is gone
}

// Readings are how full and busy the GPUs were while a run was alive, in steps of equal length.
type Readings struct {
	Step float64         `json:"step_seconds"`
	Time []time.Time     `json:"time"` // of each step; gaps where no run was alive
	GPUs []ReadingsOfGPU `json:"gpus"`
}

// ReadingsOfGPU are those of one GPU, a value for each step. Memory is the highest of the step,
// utilization the mean.
type ReadingsOfGPU struct {
	Index  int          `json:"index"`
	UUID   gpu.UUID     `json:"uuid"`
	Name   *string      `json:"name"`
	Total  *gpu.Bytes   `json:"memory_total_bytes"`
	Used   []*gpu.Bytes `json:"memory_used_bytes"`
	Ours   []*gpu.Bytes `json:"memory_ours_bytes"` // the batch's part of it
	Util   []*float64   `json:"utilization_percent"`
	Jobs   []int        `json:"jobs"`   // of the batch, that were on it
	Others []bool       `json:"others"` // so was somebody else
	Waits  []GPUWait    `json:"waits"`  // when jobs waited for it in vain
}

// GPUWait is a time in which a GPU could not be used although a job waited.
type GPUWait struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Code gpu.Code  `json:"code"` // why, else what the first job waited for: wait.code, host_memory or too_few_gpus
	User *string   `json:"user"` // because of whom
}

// ReportCurve is what an attempt has reported of a metric, step by step; long ones are thinned out.
type ReportCurve struct {
	Job    string `json:"job"`
	UniID  string `json:"uni_id"`
	Pruned bool   `json:"pruned"` // it was stopped early, after the last step
	Curve
}
