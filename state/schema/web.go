package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Hello proves to a client, before the client sends a token, that the server knows that token.
type Hello struct {
	Head
	Address string  `json:"address"` // IP address and port at which the client reached the server
	Read    string  `json:"read"`    // HMAC-SHA256 of the nonce, a space and the address, with the read token as key, in hexadecimal
	Control *string `json:"control"` // the same with the control token; null if there is none
	Session string  `json:"session"` // different for each server; HMAC-SHA256 of "session " and this value, with a token as key, is a token for this server only
}

// Session is what `gpurun web` reports about itself to clients with a token.
type Session struct {
	Head
	User    string   `json:"user"`
	Host    string   `json:"host"`
	Version string   `json:"version"` // of gpurun
	Control string   `json:"control"` // what this token permits: none, control (steer runs) or run (also start code)
	Roots   []string `json:"roots"`   // folders below which job files may be started
	Prompt  *string  `json:"prompt"`  // the host owner's message to all users
}

// Past is the last hour of this host's GPUs, as far as the server has observed it.
type Past struct {
	Head
	From time.Time `json:"from"`         // time of the first reading
	Step float64   `json:"step_seconds"` // time between two readings
	GPUs []PastGPU `json:"gpus"`
}

// PastGPU is the readings of one GPU, oldest first; null where a reading is missing.
type PastGPU struct {
	Index int          `json:"index"`
	UUID  gpu.UUID     `json:"uuid"`
	Name  string       `json:"name"`
	Total *gpu.Bytes   `json:"memory_total_bytes"`
	Used  []*gpu.Bytes `json:"memory_used_bytes"`
	Util  []*int       `json:"utilization_percent"`
}

// Summary is a batch without its jobs: at most 16 KiB, however many jobs there are.
type Summary struct {
	Head
	Version  string              `json:"version"` // version of the jobs, for events?after=
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"` // as in Report
	Counts   map[state.Phase]int `json:"counts"`
	Outcome  Outcome             `json:"outcome"`
	Tally    Tally               `json:"tally"`
	Line     string              `json:"line"` // as in `gpurun status`
	ETA      *float64            `json:"eta_seconds"`
	Total    int                 `json:"jobs_total"`
	Alike    []Alike             `json:"alike"` // failures by error, most frequent first; at most 20
	Warnings []Problem           `json:"warnings"`
}

// Jobs is a page of a batch's jobs, or the jobs that have changed.
type Jobs struct {
	Head
	Version string   `json:"version"` // for events?after=
	Total   int      `json:"total"`   // number of matching jobs
	Offset  int      `json:"offset"`  // position of the first listed job among the matching ones
	Jobs    []JobRow `json:"jobs"`
}

// JobRow is a job in a list.
type JobRow struct {
	ID       string            `json:"id"`    // stays the same unless an edit changes what the job does
	Index    int               `json:"index"` // position in the job files
	File     int               `json:"file"`  // index in batch.files
	Line     *int              `json:"line"`
	Name     string            `json:"name"`
	Params   map[string]string `json:"params"`
	Tags     []string          `json:"tags"`
	Queue    *string           `json:"queue"`
	Priority int               `json:"priority"`
	Needs    int               `json:"needs"` // number of jobs it needs
	State    state.Phase       `json:"state"`
	Since    *time.Time        `json:"since"` // when it entered that state
	Cause    *Cause            `json:"cause"`
	Wait     *Reason           `json:"wait"`
	Kind     *string           `json:"kind"` // the same for jobs that failed with the same error; null unless it failed
	Attempts int               `json:"attempts"`
	Stalled  *string           `json:"stalled"`          // as in Attempt
	Progress *float64          `json:"progress"`         // as in Attempt
	Steps    *int              `json:"steps"`            // as in Attempt
	Expected *float64          `json:"expected_seconds"` // as in Attempt
	Used     *gpu.Bytes        `json:"used_bytes"`       // GPU memory in use now, the highest of its GPUs
	UniID    *string           `json:"uni_id"`           // of the last attempt, as are `gpus`, `started` and `ended`
	GPUs     []int             `json:"gpus"`
	Started  *time.Time        `json:"started"`
	Ended    *time.Time        `json:"ended"`
	Metrics  map[string]any    `json:"metrics"` // of its last success; while it runs, those in its log so far
}

// Reason is why a job waits, without the details.
type Reason struct {
	Code WaitCode `json:"code"`
	Text string   `json:"text"`
}

// JobDetail is everything known about one job.
type JobDetail struct {
	Head
	Batch    Batch        `json:"batch"`
	Job      Because      `json:"job"`
	Attempts []AttemptRow `json:"attempts"` // oldest first
}

// Timeline is when the attempts of a batch ran, and on which GPUs.
type Timeline struct {
	Head
	Attempts []AttemptRow `json:"attempts"` // by end time, running ones last
	Readings *Readings    `json:"readings"` // of all runs; null if there are none
}

// Curves are the series of values that an attempt reported.
type Curves struct {
	Head
	Curves []Curve `json:"curves"`
}

// Curve is the points of one metric.
type Curve struct {
	Metric string     `json:"metric"`
	Steps  []float64  `json:"steps"`
	Values []*float64 `json:"values"` // null where the value was not finite
}

// Matches are the log lines that contain a string.
type Matches struct {
	Head
	Count int     `json:"count"`
	At    []int64 `json:"at"` // offsets of the last 1000 matches within the attempt's part of the log
}

// Answer is the result of a request that changes something.
type Answer struct {
	Head
	Said []string `json:"said"` // messages, one line each
}
