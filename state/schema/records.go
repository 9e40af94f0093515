package schema

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// JobFileProblem is the code of a problem in a job file that no lint found.
const JobFileProblem = "job_file"

// Problem is a mistake, a warning, or why a command failed.
type Problem struct {
	Code   string  `json:"code"` // the lint that found it, else job_file, or what went wrong: see below
	File   *string `json:"file"` // as given
	Line   *int    `json:"line"`
	Column *int    `json:"column"`
	Text   string  `json:"text"`
	Hint   *string `json:"hint"` // the cure
}

// Problems is what `gpurun check --json` prints, and any command with --json that fails.
type Problems struct {
	Head
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
	Files    []File    `json:"files"` // that were checked and have no problems
}

// Event is a line of `gpurun events` and of `gpurun run --json`: a fact of the ledger. Fields
// that do not apply are left out. Kinds that a later gpurun adds are to be skipped.
type Event struct {
	Seq  int64  `json:"seq"`  // its number in the ledger of its file
	File string `json:"file"` // the job file
	state.Fact
}

// Batches is what `gpurun ls --json` prints.
type Batches struct {
	Head
	Batches []BatchRow `json:"batches"` // last started first
}

// BatchRow is a batch of this user on this host.
type BatchRow struct {
	Batch
	Run     *Run                `json:"run"`     // the live run, else the last one
	Counts  map[state.Phase]int `json:"counts"`  // jobs by state; null if its ledger cannot be read
	Outcome *Outcome            `json:"outcome"` // likewise
	Tally   *Tally              `json:"tally"`   // likewise
	Line    *string             `json:"line"`    // likewise: the state line
	Error   *string             `json:"error"`   // why its job file or ledger cannot be read, else null
}

// History is what `gpurun history --json` prints: runs, or with jobs their attempts.
type History struct {
	Head
	Batch    Batch        `json:"batch"`
	Runs     []RunRow     `json:"runs"`     // oldest first; null with jobs
	Attempts []AttemptRow `json:"attempts"` // oldest first; null without jobs
}

// RunRow is the result of one run.
type RunRow struct {
	N          int                 `json:"n"`      // its number, for --run
	ID         *string             `json:"id"`     // likewise; null in older ledgers
	Params     map[string]string   `json:"params"` // given with -p
	Started    time.Time           `json:"started"`
	Ended      *time.Time          `json:"ended"`       // null while it is alive, and if it was killed
	LastSeen   time.Time           `json:"last_seen"`   // its last line in the ledger
	Exit       *int                `json:"exit_status"` // null while it is alive, and if it was killed
	Why        string              `json:"why"`         // how it ended, in words
	Host       string              `json:"host"`
	Git        *Git                `json:"git"`
	Sim        *string             `json:"sim"`
	Driver     *string             `json:"driver"`      // with the version of NVML
	GPUs       *int                `json:"usable_gpus"` // that the run could use; null if it needed none, and in older ledgers
	Counts     map[state.Phase]int `json:"counts"`      // jobs by how their last attempt in this run ended
	Attempts   int                 `json:"attempts"`    // that it started
	Retries    int                 `json:"retries"`     // of jobs that it had already tried
	GPUSeconds float64             `json:"gpu_seconds"`
	Alike      []Alike             `json:"alike"`            // its failures, grouped
	Lost       []Loss              `json:"lost"`             // GPU time for which jobs waited in vain, and because of whom
	Idle       *float64            `json:"idle_gpu_seconds"` // in which no job had a GPU or waited for it; null without usable_gpus
}

// AttemptRow is an attempt with its job.
type AttemptRow struct {
	File string `json:"file"`
	Job  string `json:"job"`
	Key  string `json:"key"`
	Attempt
}

// Loss is GPU time that a run could not use although jobs waited.
type Loss struct {
	Code    gpu.Code `json:"code"`        // why
	User    *string  `json:"user"`        // whose jobs or processes were there
	Seconds float64  `json:"gpu_seconds"` //
}

// Why is what `gpurun why --json JOB` prints.
type Why struct {
	Head
	Batch Batch     `json:"batch"`
	Jobs  []Because `json:"jobs"`
}

// Because explains one job.
type Because struct {
	Job
	Chain []string `json:"chain"` // from what can be seen of it back to the cause, a sentence each
}

// Usage is what `gpurun usage --json` prints.
type Usage struct {
	Head
	Since   time.Time    `json:"since"`
	Users   []UserHours  `json:"users"`
	Batches []BatchHours `json:"batches"`
}

// BatchUsage is what `gpurun usage FILE --json` prints: where the GPU time of all runs of a batch went. That is the time of
// all GPUs that a run could use while it was alive, and of jobs that outlived their run. A job on several
// GPUs counts for each; jobs that share a GPU share its time.
type BatchUsage struct {
	Head
	Time    float64        `json:"gpu_seconds"`
	Parts   []state.GPUUse `json:"parts"`   // they sum up to it
	Unknown []string       `json:"unknown"` // what is not known of it, in words
	Advice  []string       `json:"advice"`  // settings that would make better use of GPUs, and what was measured
}

// UserHours is the GPU time of a user of this host.
type UserHours struct {
	User   string  `json:"user"`
	UID    int     `json:"uid"`
	You    bool    `json:"you"`
	Time   float64 `json:"gpu_seconds"`
	Stated float64 `json:"stated_gpu_seconds"` // by the user's own runs
	Seen   float64 `json:"seen_gpu_seconds"`   // by this user's runs
}

// BatchHours is the GPU time of a batch.
type BatchHours struct {
	File     string  `json:"file"`
	Time     float64 `json:"gpu_seconds"`
	Attempts int     `json:"attempts"`
}

// Versions is what `gpurun version --json` prints.
type Versions struct {
	Head
	Gpurun string  `json:"gpurun"`
	Commit *string `json:"commit"` // that it was built from, if git knew
	Date   *string `json:"date"`   // of that commit
	Go     string  `json:"go"`
	NVML   *string `json:"nvml"`       // with the version of the driver
	Error  *string `json:"nvml_error"` // why there is none
	Rules  *string `json:"host_rules"` // the file
}

// Doctor is what `gpurun doctor --json` prints.
type Doctor struct {
	Head
	OK     bool    `json:"ok"` // nothing is wrong
	Checks []Check `json:"checks"`
}

// Check is one finding of gpurun doctor; a check that finds several faults has several.
type Check struct {
	Code CheckCode `json:"code"`
	OK   bool      `json:"ok"`
	Text string    `json:"text"`
	Hint *string   `json:"hint"` // the cure, if something is wrong
}

// CheckCode is what was checked.
type CheckCode string

const (
	CheckDriver     CheckCode = "driver"     // the driver's library, and whether this user may use it
	CheckGPUs       CheckCode = "gpus"       // each GPU answers, and CUDA_VISIBLE_DEVICES leaves some
	CheckClaims     CheckCode = "claims"     // the folder where runs of all users see each other
	CheckHostRules  CheckCode = "host_rules" // the rules of the host
	CheckLimits     CheckCode = "limits"     // ulimits that jobs inherit
	CheckCommands   CheckCode = "commands"   // of a cluster
	CheckController CheckCode = "controller" // of a cluster: whether it answers
	CheckPartition  CheckCode = "partition"  // of a cluster: whether it takes a job with a GPU
	CheckLogout     CheckCode = "logout"     // KillUserProcesses
	CheckState      CheckCode = "state"      // the state folder: permissions, disk space, clocks
	CheckTerminal   CheckCode = "terminal"   // for the live view
)

// News is what `notify` sends as JSON, to URLs of no known service and to commands. Anything that
// looks like a secret is left out.
type News struct {
	Head
	Title   string              `json:"title"`
	Message string              `json:"message"`
	On      []string            `json:"on"`   // what is in it: done, first_failure, failure, gpus_free, stalled, test; of a job with notify also success
	File    string              `json:"file"` // the job file, or several separated by spaces
	Host    string              `json:"host"`
	Counts  map[state.Phase]int `json:"counts"` // jobs by state; null for a test
	Jobs    []NewsJob           `json:"jobs"`   // that failed or stalled, and of those with notify that succeeded; at most 20
}

// NewsJob is a job that failed, stalled or succeeded.
type NewsJob struct {
	Name  string      `json:"name"`
	State state.Phase `json:"state"`
	Text  string      `json:"text"` // why
	Log   *string     `json:"log"`
}
