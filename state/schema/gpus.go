package schema

import (
	"time"

	"gpurun/gpu"
)

// GPUs is what `gpurun gpus --json` prints.
type GPUs struct {
	Head
	GPUs    []GPU      `json:"gpus"`       // in PCI order
	Waiting []Waiter   `json:"waiting"`    // the runs of all users that wait for GPUs, in their order
	Rules   *HostRules `json:"host_rules"` // of the host's owner, that are in force for this user
}

// GPU is a GPU or a MIG instance, and whether a job could use it now: in gpus the job that
// the command line describes, in status the one that waits first.
type GPU struct {
	Index       int          `json:"index"`
	UUID        gpu.UUID     `json:"uuid"`
	Name        string       `json:"name"`
	PCI         string       `json:"pci"`
	MIG         bool         `json:"mig"`
	Total       *gpu.Bytes   `json:"memory_total_bytes"`
	Used        *gpu.Bytes   `json:"memory_used_bytes"`
	Free        *gpu.Bytes   `json:"memory_free_bytes"`
	Util        *int         `json:"utilization_percent"`
	Fits        *bool        `json:"fits"`      // null in status while no job waits
	Code        *gpu.Code    `json:"code"`      // why it does not fit
	Text        *string      `json:"text"`      // the same, or a caveat if it fits
	Jobs        []string     `json:"jobs"`      // of this run, that are on it
	Stalled     []string     `json:"stalled"`   // of these, those that have done nothing for too long
	Processes   []Process    `json:"processes"` // null if they are not known
	Claims      []Claim      `json:"claims"`    // of other runs
	Quarantines []Quarantine `json:"quarantines"`
	RowRemap    *bool        `json:"row_remap_pending"` // a row of its memory is replaced when it is reset
}

// Process is a process on a GPU.
type Process struct {
	PID     int        `json:"pid"`
	User    *string    `json:"user"`
	Command *string    `json:"command"`
	Memory  *gpu.Bytes `json:"memory_bytes"`
	Idle    *float64   `json:"idle_seconds"` // for how long its GPU has done nothing since it began
}

// Claim is what a run of any user holds of a GPU.
type Claim struct {
	User   *string    `json:"user"`
	Job    string     `json:"job"`
	PID    *int       `json:"pid"`
	Memory gpu.Bytes  `json:"memory_bytes"`
	Since  *time.Time `json:"since"`
	Over   bool       `json:"over"` // the job has ended, and the GPU passes to its run's next job

	Gathering bool `json:"gathering"` // the job waits: the GPU is kept for it until it has all that it needs
}

// Quarantine says that jobs died on a GPU, so its user's jobs leave it alone for a while.
type Quarantine struct {
	User     *string   `json:"user"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Text     string    `json:"text"`
	Evidence []string  `json:"evidence"`
}

// Waiter is a run that waits for GPUs: a row of `gpurun queue --json`.
type Waiter struct {
	Position   int        `json:"position"`
	User       string     `json:"user"`
	You        bool       `json:"you"`
	Run        *string    `json:"run"`        // null for the place that you would have, if none of your runs waits
	Name       *string    `json:"name"`       // of a command that waits; null for a run
	Since      time.Time  `json:"since"`      //
	Holds      float64    `json:"holds_gpus"` // the user, by all runs and programs
	Background bool       `json:"background"`
	Asks       []Ask      `json:"asks"`
	Start      *time.Time `json:"expected_start"`
	Text       *string    `json:"text"` // what keeps it waiting; null in gpus
}

// Ask is what a run waits for.
type Ask struct {
	Jobs   int        `json:"jobs"`         // alike, as far as there are GPUs for them
	GPUs   int        `json:"gpus"`         // 0 for one that waits for cores or memory of the host alone
	Memory gpu.Bytes  `json:"memory_bytes"` // on each
	Share  bool       `json:"share"`
	UUIDs  []gpu.UUID `json:"uuids"` // that could do
}

// Queue is what `gpurun queue --json` prints.
type Queue struct {
	Head
	Waiting []Waiter `json:"waiting"`
}

// HostRules are rules of the host's owner.
type HostRules struct {
	File          string   `json:"file"`
	Devices       []string `json:"devices"` // that gpurun may use; null for all
	Reserve       int      `json:"reserve"`
	MaxGPUs       *int     `json:"max_gpus"` // that you may hold; null for no limit
	LimitedBy     *string  `json:"max_gpus_by"`
	Held          int      `json:"held_gpus"` // by you
	MaxGPUsPerJob *int     `json:"max_gpus_per_job"`
	MaxTimeout    *float64 `json:"max_timeout_seconds"`
	Others        string   `json:"others"`
	Hours         []string `json:"hours"`
	Prompt        *string  `json:"prompt"`
	Schedule      string   `json:"schedule"`
	Priority      int      `json:"priority"` // yours
	Courtesy      float64  `json:"courtesy_seconds"`
	Patience      float64  `json:"patience_seconds"`
	Gather        float64  `json:"gather_seconds"`
}
