package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Hello shows that a server knows its tokens, to a client that is about to send one.
type Hello struct {
	Head
	Address string  `json:"address"` // IP and port at which the server was reached
	Read    string  `json:"read"`    // HMAC-SHA256 of nonce, space and address by the token for reading, in hexadecimal
	Control *string `json:"control"` // by that for control; null if there is none
	Session string  `json:"session"` // new with each server; HMAC-SHA256 of "session ", and this, by a token is a token of this server alone
}

// Session is what `gpurun web` says of itself to whoever has a token.
type Session struct {
	Head
	User    string   `json:"user"`
	Host    string   `json:"host"`
	Version string   `json:"version"` // of gpurun
	Control string   `json:"control"` // what this token may do: none, control (steer runs) or run (also start code)
	Roots   []string `json:"roots"`   // below which job files may be started
	Prompt  *string  `json:"prompt"`  // what the host's owner tells everybody
}

// Past is the last hour of this host's GPUs, as far as the server has seen it.
type Past struct {
	Head
	From time.Time `json:"from"`         // of the first reading
	Step float64   `json:"step_seconds"` // between two readings
	GPUs []PastGPU `json:"gpus"`
}

// PastGPU is the readings of a GPU, oldest first; null where there is none.
type PastGPU struct {
	Index int          `json:"index"`
	UUID  gpu.UUID     `json:"uuid"`
	Name  string       `json:"name"`
	Total *gpu.Bytes   `json:"memory_total_bytes"`
	Used  []*gpu.Bytes `json:"memory_used_bytes"`
	Util  []*int       `json:"utilization_percent"`
}

// Summary is a batch without its jobs: at most 16 KiB, whatever their number.
type Summary struct {
	Head
	Version  string              `json:"version"` // of the jobs, for events?after=
	Batch    Batch               `json:"batch"`
	Run      *Run                `json:"run"` // the live run, else the last one; null if there was none
	Counts   map[state.Phase]int `json:"counts"`
	Outcome  Outcome             `json:"outcome"`
	Tally    Tally               `json:"tally"`
	Line     string              `json:"line"` // the state line, as in status
	ETA      *float64            `json:"eta_seconds"`
	Total    int                 `json:"jobs_total"`
	Running  []string            `json:"running"` // names of the first 20
	Alike    []Alike             `json:"alike"`   // failures by error, most frequent first; at most 20
	Warnings []Problem           `json:"warnings"`
}

// Jobs are rows of a batch, a page of them or those that have changed.
type Jobs struct {
	Head
	Version string   `json:"version"` // for events?after=
	Total   int      `json:"total"`   // that match
	Offset  int      `json:"offset"`  // of the first among those
	Jobs    []JobRow `json:"jobs"`
}

// JobRow is a job in a list.
type JobRow struct {
	ID       string            `json:"id"`    // the same as long as the job does the same
	Index    int               `json:"index"` // in the order of the job files
	File     int               `json:"file"`  // in batch.files
	Line     *int              `json:"line"`
	Name     string            `json:"name"`
	Params   map[string]string `json:"params"`
	Tags     []string          `json:"tags"`
	Queue    *string           `json:"queue"`
	Priority int               `json:"priority"`
	Needs    int               `json:"needs"` // how many jobs it needs
	State    state.Phase       `json:"state"`
	Since    *time.Time        `json:"since"` // since when it is in that state
	Cause    *Cause            `json:"cause"`
	Wait     *Reason           `json:"wait"`
	Kind     *string           `json:"kind"` // of jobs that failed with the same error; null unless it failed
	Attempts int               `json:"attempts"`
	Stalled  *string           `json:"stalled"`          // while it has done nothing for too long, of what and for how long
	Progress *float64          `json:"progress"`         // how much of its work is done, from 0 to 1, by its log
	Expected *float64          `json:"expected_seconds"` // what jobs like it took
	Used     *gpu.Bytes        `json:"used_bytes"`       // of GPU memory now, on the GPU where that is most
	UniID    *string           `json:"uni_id"`           // of the last attempt, as are the rest
	GPUs     []int             `json:"gpus"`
	Started  *time.Time        `json:"started"`
	Ended    *time.Time        `json:"ended"`
	Metrics  map[string]any    `json:"metrics"` // of its last success
}

// Reason is what a job waits for, without the details.
type Reason struct {
	Code WaitCode `json:"code"`
	Text string   `json:"text"`
}

// JobDetail is all that is known of one job.
type JobDetail struct {
	Head
	Batch    Batch        `json:"batch"`
	Row      JobRow       `json:"row"`
	Job      Because      `json:"job"`
	Attempts []AttemptRow `json:"attempts"` // oldest first
}

// Timeline is when the attempts of a batch ran, and on which GPUs.
type Timeline struct {
	Head
	Spans    []Span    `json:"spans"`    // in the order of their ends; those that run last
	Readings *Readings `json:"readings"` // when others used GPUs, and why jobs waited for them, without memory, utilization and jobs; null if there are none
}

// Span is an attempt on a timeline.
type Span struct {
	Job     string           `json:"job"` // the id of its row
	Name    string           `json:"name"`
	UniID   *string          `json:"uni_id"`
	N       int              `json:"n"`
	State   state.Phase      `json:"state"`
	Started *time.Time       `json:"started"`
	Ended   *time.Time       `json:"ended"`
	Host    *string          `json:"host"` // the node of a cluster; null if this host ran it
	GPUs    []int            `json:"gpus"`
	Cause   *state.CauseCode `json:"cause"`
}

// Curves are what an attempt has reported step by step.
type Curves struct {
	Head
	Curves []Curve `json:"curves"`
}

// Curve is the points of one metric.
type Curve struct {
	Metric string     `json:"metric"`
	Steps  []float64  `json:"steps"`
	Values []*float64 `json:"values"` // null where it was not a number
}

// Matches is the lines of a log that contain a text.
type Matches struct {
	Head
	Count int     `json:"count"`
	At    []int64 `json:"at"` // offsets of the last 1000 in the attempt's part of the log
}

// Answer is the result of a request to change something.
type Answer struct {
	Head
	Said []string `json:"said"` // in words, a line each
}
