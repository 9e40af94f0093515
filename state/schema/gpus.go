package schema

import (
	"time"

	"gpurun/gpu"
)

// GPUs is what `gpurun gpus --json` prints.
type GPUs struct {
	Head
	GPUs    []GPU      `json:"gpus"`       // in PCI order
	Waiting []Waiter   `json:"waiting"`    // runs of all users that wait for GPUs, in queue order
	Rules   *HostRules `json:"host_rules"` // rules of the host's owner that apply to this user
}

// GPU is a GPU or a MIG instance, and whether a job could use it now: in `gpurun gpus`, the job
// described on the command line; in `gpurun status`, the first waiting job.
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
	Fits        *bool        `json:"fits"`      // null in `gpurun status` while no job waits
	Code        *gpu.Code    `json:"code"`      // why the job does not fit
	Text        *string      `json:"text"`      // the reason, or a caveat if the job fits
	Jobs        []string     `json:"jobs"`      // jobs of this run on the GPU; in `gpurun gpus`, of all your runs
	Stalled     []string     `json:"stalled"`   // those jobs that have made no progress for too long
	Processes   []Process    `json:"processes"` // null if unknown
	Claims      []Claim      `json:"claims"`    // claims of other runs; in `gpurun gpus`, of all runs
	Quarantines []Quarantine `json:"quarantines"`
	RowRemap    *bool        `json:"row_remap_pending"` // whether a faulty memory row will be replaced at the next reset
}

// Process is a process on a GPU.
type Process struct {
	PID     int        `json:"pid"`
	User    *string    `json:"user"`
	Command *string    `json:"command"`
	Memory  *gpu.Bytes `json:"memory_bytes"`
	Idle    *float64   `json:"idle_seconds"` // how long its GPU has been idle since the process started
}

// Claim is a reservation of GPU memory by a run of any user.
type Claim struct {
	User   *string    `json:"user"`
	Job    string     `json:"job"`
	UniID  *string    `json:"uni_id"` // of the attempt
	PID    *int       `json:"pid"`
	Memory gpu.Bytes  `json:"memory_bytes"`
	Since  *time.Time `json:"since"`
	Over   bool       `json:"over"` // the job has ended, and the GPU is reserved for its run's next job

	Gathering bool `json:"gathering"` // the job is waiting, and the GPU is reserved until the job has all its GPUs
}

// Quarantine means that a user's jobs avoid a GPU for a while, because jobs died on it.
type Quarantine struct {
	User     *string   `json:"user"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Text     string    `json:"text"`
	Evidence []string  `json:"evidence"`
}

// Waiter is a run that waits for GPUs: one row of `gpurun queue --json`.
type Waiter struct {
	Position   int          `json:"position"`
	User       string       `json:"user"`
	You        bool         `json:"you"`
	Run        *string      `json:"run"`        // null in your row if none of your runs is waiting; position is then that of a new run
	Name       *string      `json:"name"`       // name of a waiting command; null for a run
	Since      time.Time    `json:"since"`      //
	Holds      float64      `json:"holds_gpus"` // GPUs held by the user's runs and programs
	Background bool         `json:"background"`
	Requests   []GPURequest `json:"asks"`
	Start      *time.Time   `json:"expected_start"`
	Text       *string      `json:"text"` // why it waits; null in `gpurun gpus`
}

// GPURequest is what a waiting run requests.
type GPURequest struct {
	Jobs   int        `json:"jobs"`         // number of such jobs, at most as many as the GPUs could run
	GPUs   int        `json:"gpus"`         // 0 if the run waits only for host cores or memory
	Memory gpu.Bytes  `json:"memory_bytes"` // on each GPU
	Share  bool       `json:"share"`
	UUIDs  []gpu.UUID `json:"uuids"` // GPUs that would be suitable
}

// Queue is what `gpurun queue --json` prints.
type Queue struct {
	Head
	Waiting []Waiter `json:"waiting"`
}

// HostRules are the rules of the host's owner.
type HostRules struct {
	File          string   `json:"file"`
	Devices       []string `json:"devices"` // devices that gpurun may use; null for all
	Reserve       int      `json:"reserve"`
	MaxGPUs       *int     `json:"max_gpus"` // GPUs that you may hold; null for no limit
	LimitedBy     *string  `json:"max_gpus_by"`
	Held          int      `json:"held_gpus"` // GPUs that you hold
	MaxGPUsPerJob *int     `json:"max_gpus_per_job"`
	MaxTimeout    *float64 `json:"max_timeout_seconds"`
	Others        string   `json:"others"`
	Hours         []string `json:"hours"`
	Prompt        *string  `json:"prompt"`
	Schedule      string   `json:"schedule"`
	Priority      int      `json:"priority"` // your priority
	Courtesy      float64  `json:"courtesy_seconds"`
	Patience      float64  `json:"patience_seconds"`
	Gather        float64  `json:"gather_seconds"`
}
