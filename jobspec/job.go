// Package jobspec turns job files into a Batch: plain, fully expanded jobs in the order of the
// file, with their dependency graph. It reads four dialects: native YAML, experiment lists, blocks
// and lists of commands. A Batch is independent of the dialect, except for a few rules that it
// stores in fields.
//
// A Job is immutable. Data shared by thousands of expansions is stored once, in a Spec. Texts with
// {variables} are rendered only when a job is displayed or starts, so that a batch of a million
// jobs fits in memory.
//
// Load reports all problems in all files at once, and never returns a partial batch.
//
// # Adding a dialect
//
// Define a dialect and a style in jobspec/dialect.go. The dialect holds functions that read a file,
// its settings and its jobs; the style holds the defaults of its jobs. Write a function that
// recognizes its files, and call it in dialectOf. Add the dialect's name to Formats and to --format
// (runner/cli/grammar.go). Put the four functions into a file of their own, like plain.go: reading
// fills in a fileJobs (load.go), and each job becomes a proto (proto.go), which expand (expand.go)
// turns into jobs with names, keys and specs. A parser of more than a few lines belongs in its own
// package, such as jobspec/block. That package must not depend on jobs, and its allowed imports are
// listed in runner/house_test.go. Describe the dialect in docs/reference/jobfile.md, and add an
// example to jobs/.
package jobspec

import (
	"encoding/hex"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
)

// A Key is a hash of what a job does. It identifies the job in the ledger.
type Key [16]byte

// String returns the key as written in the ledger: 32 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey parses the result of String.
func ParseKey(s string) (Key, bool) {
	var k Key
	if len(s) != 2*len(k) {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

// When is the condition on a job's needs under which the job runs.
type When string

const (
	OnSuccess When = "success" // all needs succeeded
	OnFailure When = "failure" // at least one need failed and all have ended
	Always    When = "always"  // all needs have ended
)

// A TimeoutSignal is the signal that a job gets when its timeout expires.
type TimeoutSignal struct {
	Signal string        // a signal such as "USR1", sent to processes that catch it; "" or "TERM" for SIGTERM to all processes
	Grace  time.Duration // time until SIGKILL
}

// Stall defines when a job counts as stalled.
type Stall struct {
	After  time.Duration // time without output, CPU use and GPU use; 0 for never
	Output time.Duration // time without output; 0 for never
	Kill   bool          // stop a stalled job, not only warn
}

// A PoolUse is how much of a pool a job uses. N is 0 if it uses none.
type PoolUse struct {
	Name string
	N    int
}

// Retry defines whether and when a failed attempt is retried.
type Retry struct {
	Max          int           // retries after the first attempt; -1 for no limit
	Delay        time.Duration // before each retry
	BackoffAfter int           // Backoff replaces Delay after every BackoffAfter-th failure; 0 for never
	Backoff      time.Duration
	On           []string // kinds of failure (oom, timeout, stalled, signal, exit, lost) and exit codes; empty for all
	MemoryGrowth float64  // factor on gpu_memory after an OOM; 0 or 1 for none
}

// A Job is one unit of work: what an attempt runs.
type Job struct {
	ID    int    // its index in Batch.Jobs
	File  int    // index in Batch.Files
	Name  string // unique in its file
	Key   Key
	Spec  *Spec
	Needs []int32 // IDs, ascending, no duplicates
	Queue int32   // index in Batch.Queues, or -1
	combo int32   // index of the expansion in its matrix
}

// text returns the job as written in its file. A job that does not come from a file has only a
// name.
func (j *Job) text() *expand.Job {
	if j.Spec == nil || j.Spec.text == nil {
		return &expand.Job{Name: expand.Literal(j.Name, 0, 0), Matrix: &expand.Matrix{}}
	}
	return j.Spec.text
}

// Line returns the line where the job is defined in its file; 0 if unknown.
func (j *Job) Line() int { return j.text().Line }

// Params returns the job's parameters in the order of the file. Callers must not modify them.
func (j *Job) Params() []Param { return j.values().Resolved() }

// values returns the values of the variables that are known before the job starts.
func (j *Job) values() *expand.Values { return j.text().Matrix.Values(int(j.combo), j.Name) }

// A Spec is the scheduler's view of a job. Expansions with equal specs share one Spec. Batch.Render
// renders its texts.
type Spec struct {
	Request    gpu.Request // GPUs
	CPUs       int         // cores to reserve
	CPUsGiven  bool        // the job file sets cpus
	Affinity   bool        // bind the job to the cores of its GPUs' NUMA node
	Memory     gpu.Bytes   // host memory to reserve
	Pool       PoolUse     // use of a pool from settings.pools
	Priority   int         // higher first
	When       When
	Timeout    time.Duration // 0 for none
	AtTimeout  TimeoutSignal
	Stall      Stall
	Prune      Prune
	Grace      time.Duration // between SIGTERM and SIGKILL
	Retry      Retry
	Resize     Resize
	Tree       bool   // block dialect: the job ends when its process tree is empty, and uni_id.json determines the outcome
	Leftovers  string // what to do with processes that outlive the last command: auto, wait, kill, fail; "" with Tree
	LogNamed   bool   // the job file names a log
	HasOutputs bool
	HasInputs  bool
	Template   uint64 // equal for jobs that differ only in their parameters
	Tags       []string
	Allow      []string // lints that the job or the settings disable, such as "stray"
	Desc       string
	Notify     []Notify // targets notified about the job, in addition to those in the settings

	Cluster     map[string]string // settings.cluster, overridden by the job's own keys; nil for jobs on this host
	ClusterTime time.Duration     // time after which the cluster ends the job; 0 for shortly after its timeout

	DefaultMemory bool // Request.Memory is the default min_memory, which Batch.FitDefaults may lower
	LeastMemory   bool // Request.Memory is a min_memory set by the user: the minimum for jobs that do not specify their memory

	text *expand.Job // unrendered
}

// Rendered is a job with all variables replaced, as an attempt runs it.
type Rendered struct {
	Commands []string // in order, each in its own shell
	Shell    []string // argv before the command; nil for the default (bash if installed)
	WorkDir  string   // absolute
	Env      []string // NAME=value: the job file's env and GPURUN_PARAM_…, without gpurun's own environment
	Stdout   string   // absolute; the log unless stdout and stderr are separate
	Stderr   string   // absolute; same as Stdout unless they are separate
	Outputs  []string // absolute paths or globs
	Inputs   []string // absolute paths or globs
	Metrics  []Metric // numbers to read from its log, files or result
	Config   *Config  // nil if there is none
}

// A Config is a copy of a config file with some values changed; see docs/reference/jobfile.md.
type Config struct {
	Base      string // absolute
	Path      string // absolute path for the copy
	Content   []byte
	ByContent bool // the path contains a hash of the content, so a copy at this path never changes
}
