package schema

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// JobFileProblem is the code of a problem in a job file that no lint reports.
const JobFileProblem = "job_file"

// Problem is an error, a warning, or the reason why a command failed.
type Problem struct {
	Code   string  `json:"code"` // the lint that found it, job_file, or the kind of failure
	File   *string `json:"file"` // as given
	Line   *int    `json:"line"`
	Column *int    `json:"column"`
	Text   string  `json:"text"`
	Hint   *string `json:"hint"` // how to fix it
}

// failureCodes are the codes of failed commands, by exit status.
var failureCodes = map[int]string{
	1: "failed", 2: "usage", 4: "state", 70: "internal", 75: "not_yet", 124: "gave_up", 130: "interrupted", 143: "interrupted",
}

// FailureCode returns the code of the problem with which a command failed, given its exit status.
func FailureCode(exit int) string { return cmp.Or(failureCodes[exit], fmt.Sprint("exit_", exit)) }

// SplitFailure returns the message and the hint, if any, in what a failing command printed.
func SplitFailure(said string) (text, hint string) {
	const failed = "gpurun: error: "
	if i := strings.LastIndex(said, failed); i >= 0 { // it may have printed other lines before
		said = said[i+len(failed):]
	}
	text, hint, _ = strings.Cut(said, "gpurun: hint: ")
	return strings.TrimSpace(text), strings.TrimSpace(hint)
}

// Problems is what `gpurun check --json` prints, and what any failing command with --json prints.
type Problems struct {
	Head
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
	Files    []File    `json:"files"` // checked files without problems
}

// Event is a line of `gpurun events` and of `gpurun run --json`: a fact of the ledger. Fields that
// do not apply are left out. Clients must skip unknown kinds.
type Event struct {
	Seq  int64  `json:"seq"`  // its line number in the file's ledger
	File string `json:"file"` // the job file
	state.Fact
}

// Batches is what `gpurun ls --json` prints.
type Batches struct {
	Head
	Batches []BatchRow `json:"batches"` // latest first
}

// BatchRow is one of this user's batches on this host.
type BatchRow struct {
	Batch
	Run     *Run                `json:"run"`     // the live run, else the last one
	Counts  map[state.Phase]int `json:"counts"`  // jobs by state; null if its ledger cannot be read
	Outcome *Outcome            `json:"outcome"` // null if `counts` is null
	Tally   *Tally              `json:"tally"`   // null if `counts` is null
	Line    *string             `json:"line"`    // the state line; null if `counts` is null
	Error   *string             `json:"error"`   // why its job file or ledger cannot be read; null if both can
}

// History is what `gpurun history --json` prints: runs, or the attempts of the named jobs.
type History struct {
	Head
	Batch    Batch        `json:"batch"`
	Runs     []RunRow     `json:"runs"`     // oldest first; null if jobs were named
	Attempts []AttemptRow `json:"attempts"` // oldest first; null if no jobs were named
}

// RunRow is the result of one run.
type RunRow struct {
	N          int                 `json:"n"`      // its number, for --run
	ID         *string             `json:"id"`     // its ID, for --run; null in older ledgers
	Params     map[string]string   `json:"params"` // given with -p
	Started    time.Time           `json:"started"`
	Ended      *time.Time          `json:"ended"`       // null while alive, and if killed
	LastSeen   time.Time           `json:"last_seen"`   // time of its last line in the ledger
	Exit       *int                `json:"exit_status"` // null while alive, and if killed
	Why        string              `json:"why"`         // how it ended, in words
	Host       string              `json:"host"`
	Git        *Git                `json:"git"`
	Sim        *string             `json:"sim"`
	Driver     *string             `json:"driver"`      // including the version of NVML
	GPUs       *int                `json:"usable_gpus"` // GPUs that the run could use; null if it needed none, and in older ledgers
	Counts     map[state.Phase]int `json:"counts"`      // jobs by the final state of their last attempt in this run
	Attempts   int                 `json:"attempts"`    // attempts that it started
	Retries    int                 `json:"retries"`     // attempts of jobs that it had already tried
	GPUSeconds float64             `json:"gpu_seconds"`
	Alike      []Alike             `json:"alike"`            // its failures, grouped
	Lost       []Loss              `json:"lost"`             // GPU time that waiting jobs could not use, by reason and user
	Idle       *float64            `json:"idle_gpu_seconds"` // GPU time during which no job used the GPU or waited for it; null without usable_gpus
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
	User    *string  `json:"user"`        // whose jobs or processes held the GPU
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
	Chain []string `json:"chain"` // from the symptom back to the cause, one sentence each
}

// Usage is what `gpurun usage --json` prints.
type Usage struct {
	Head
	Since   time.Time    `json:"since"`
	Users   []UserHours  `json:"users"`
	Batches []BatchHours `json:"batches"`
}

// BatchUsage is what `gpurun usage FILE --json` prints: how the GPU time of all runs of a batch was
// used. It covers all GPUs that a run could use while it was alive, and jobs that outlived their
// run. A job on several GPUs counts for each; jobs that share a GPU share its time.
type BatchUsage struct {
	Head
	Time    float64        `json:"gpu_seconds"`
	Parts   []state.GPUUse `json:"parts"`   // add up to gpu_seconds
	Unknown []string       `json:"unknown"` // missing information, in words
	Advice  []string       `json:"advice"`  // settings that would use the GPUs better, with the measurements behind them
}

// UserHours is the GPU time of a user of this host.
type UserHours struct {
	User   string  `json:"user"`
	UID    int     `json:"uid"`
	You    bool    `json:"you"`
	Time   float64 `json:"gpu_seconds"`
	Stated float64 `json:"stated_gpu_seconds"` // reported by the user's own runs
	Seen   float64 `json:"seen_gpu_seconds"`   // observed by your own runs
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
	Commit *string `json:"commit"` // commit that gpurun was built from; null if unknown
	Date   *string `json:"date"`   // date of that commit
	Go     string  `json:"go"`
	NVML   *string `json:"nvml"`       // version of NVML and the driver
	Error  *string `json:"nvml_error"` // why NVML is not available
	Rules  *string `json:"host_rules"` // the rules file
}

// Doctor is what `gpurun doctor --json` prints.
type Doctor struct {
	Head
	OK     bool    `json:"ok"` // no problems found
	Checks []Check `json:"checks"`
}

// Check is one finding of gpurun doctor. A check that finds several problems has several findings.
type Check struct {
	Code CheckCode `json:"code"`
	OK   bool      `json:"ok"`
	Text string    `json:"text"`
	Hint *string   `json:"hint"` // how to fix the problem
}

// CheckCode is what was checked.
type CheckCode string

const (
	CheckDriver     CheckCode = "driver"     // whether the driver's library works and this user may use it
	CheckGPUs       CheckCode = "gpus"       // whether each GPU responds, and CUDA_VISIBLE_DEVICES leaves at least one
	CheckClaims     CheckCode = "claims"     // the folder in which all users' runs see each other's claims
	CheckHostRules  CheckCode = "host_rules" // the host's rules
	CheckLimits     CheckCode = "limits"     // ulimits that jobs inherit
	CheckCommands   CheckCode = "commands"   // the cluster's commands
	CheckController CheckCode = "controller" // whether the cluster's controller responds
	CheckPartition  CheckCode = "partition"  // whether the cluster's partition accepts a job with a GPU
	CheckLogout     CheckCode = "logout"     // whether jobs survive a logout (KillUserProcesses)
	CheckState      CheckCode = "state"      // the state folder: permissions, disk space, clocks
	CheckTerminal   CheckCode = "terminal"   // what the live view needs
)

// Notification is what `notify` sends as JSON, to URLs of unknown services and to commands. Anything
// that looks like a secret is removed.
type Notification struct {
	Head
	Title   string              `json:"title"`
	Message string              `json:"message"`
	On      []string            `json:"on"`   // its events: done, first_failure, failure, gpus_free, stalled, test, and success for jobs with notify
	File    string              `json:"file"` // the job file, or several separated by spaces
	Host    string              `json:"host"`
	Counts  map[state.Phase]int `json:"counts"` // jobs by state; null for a test
	Jobs    []NotificationJob   `json:"jobs"`   // jobs that failed or stalled, and jobs with notify that succeeded; at most 20
}

// NotificationJob is a job that failed, stalled or succeeded.
type NotificationJob struct {
	Name  string      `json:"name"`
	State state.Phase `json:"state"`
	Text  string      `json:"text"` // why it failed or stalled; for a success, how long it took
	Log   *string     `json:"log"`
}
