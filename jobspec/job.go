// Package jobspec turns job files into a Batch: plain, fully expanded jobs in the
// file's order, with their dependency graph. It reads four dialects (native YAML,
// experiment lists, blocks, lines of commands). Nothing in a Batch depends on the dialect, except for a
// few rules that are fields.
//
// A Job is immutable. What thousands of expansions share is stored once, in a Spec.
// Texts with {variables} are rendered only when a job is looked at or starts, so that
// a batch of a million jobs fits in memory.
//
// Load reports every problem in every file at once, and never returns half a batch.
//
// # Another dialect
//
// A dialect in jobspec/dialect.go says how to recognize a file, and how to read it,
// its settings and its jobs; a style beside it says what holds for its jobs. dialectOf must try
// it, and Load (load.go) and --format (runner/cli/grammar.go) must know its word. The four
// functions go into a file of their own, like plain.go: reading fills fileJobs (load.go), and
// each job becomes a proto (proto.go), of which expand (expand.go) makes jobs with names, keys
// and specs. A parser that is more than a few lines is a package that knows no jobs, like
// jobspec/block, with a row of allowed imports in runner/house_test.go. docs/reference/jobfile.md
// describes the dialect, and jobs/ gets an example.
package jobspec

import (
	"encoding/hex"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
)

// A Key is the hash of what a job does, and its identity in the ledger.
type Key [16]byte

// String returns the key as the ledger has it: 32 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey parses what String returns.
func ParseKey(s string) (Key, bool) {
	var k Key
	if len(s) != 2*len(k) {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

// When selects the outcomes of a job's needs that let it run.
type When string

const (
	OnSuccess When = "success" // all needs succeeded
	OnFailure When = "failure" // some need failed and all have ended
	Always    When = "always"  // all needs have ended
)

// A TimeoutSignal is the signal that a job gets when its timeout expires.
type TimeoutSignal struct {
	Signal string        // to those of its processes that catch it: "USR1"; "" or "TERM" for SIGTERM to all
	Grace  time.Duration // until SIGKILL
}

// Stall defines when a job counts as stalled.
type Stall struct {
	After  time.Duration // after so long without output, CPU and GPU use; 0 for never
	Output time.Duration // after so long without output; 0 for never
	Kill   bool          // and that it is then ended
}

// A PoolUse is how much of a pool a job takes. N is 0 without one.
type PoolUse struct {
	Name string
	N    int
}

// Retry defines whether and when a failed attempt is retried.
type Retry struct {
	Max          int           // retries after the first attempt; -1 for no limit
	Delay        time.Duration // before each
	BackoffAfter int           // Backoff replaces Delay after every BackoffAfter failures; 0 for never
	Backoff      time.Duration
	On           []string // kinds of failure: oom, timeout, stalled, signal, exit, lost, and exit codes; empty for all
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
	combo int32   // which expansion of its matrix it is
}

// text returns the job as its file has it; of one that no file has, nothing but the name.
func (j *Job) text() *expand.Job {
	if j.Spec == nil || j.Spec.text == nil {
		return &expand.Job{Name: expand.Literal(j.Name, 0, 0), Matrix: &expand.Matrix{}}
	}
	return j.Spec.text
}

// Line returns the line of the job file where the job is written; 0 if it is not known.
func (j *Job) Line() int { return j.text().Line }

// Params returns the job's parameters in the file's order. Callers must not modify them.
func (j *Job) Params() []Param { return j.values().Resolved() }

// values returns the job's variables that are known before it starts.
func (j *Job) values() *expand.Values { return j.text().Matrix.Values(int(j.combo), j.Name) }

// A Spec is the scheduler's view of a job, shared by all expansions with equal specs. Its texts are
// available through Job.Render.
type Spec struct {
	Request    gpu.Request // GPUs
	CPUs       int         // cores to reserve
	CPUsGiven  bool        // the job file sets cpus
	Affinity   bool        // bind the job to the cores of its GPUs' NUMA node
	Memory     gpu.Bytes   // host memory to reserve
	Pool       PoolUse     // of settings.pools
	Priority   int         // higher first
	When       When
	Timeout    time.Duration // 0 for none
	AtTimeout  TimeoutSignal
	Stall      Stall
	Prune      Prune
	Grace      time.Duration // between SIGTERM and SIGKILL
	Retry      Retry
	Resize     Resize
	Tree       bool   // block dialect: the job ends when its process tree is empty, and uni_id.json decides how
	Leftovers  string // what to do with processes that outlive the last command: auto, wait, kill, fail; "" with Tree
	LogNamed   bool   // the job file names a log
	HasOutputs bool
	HasInputs  bool
	Template   uint64 // equal for jobs that differ only in parameters
	Tags       []string
	Allow      []string // lints switched off that only a running job can raise: "stray"
	Desc       string
	Notify     []Notify // who gets news of the job, beside those of the settings

	Cluster     map[string]string // settings.cluster with the job's own keys instead; nil if it runs here
	ClusterTime time.Duration     // after which the cluster is to end it; 0 for soon after its timeout

	DefaultMemory bool // Request.Memory is the default min_memory, which Batch.FitDefaults may lower
	LeastMemory   bool // Request.Memory is the min_memory of somebody: the least for jobs that do not say what they need

	text *expand.Job // unrendered strings; only for this package
}

// Rendered is a job with every variable replaced: what an attempt runs.
type Rendered struct {
	Commands []string // in order, each in its own shell
	Shell    []string // argv before the command; nil for the default (bash if installed)
	WorkDir  string   // absolute
	Env      []string // NAME=value: the job file's env and GPURUN_PARAM_…, without gpurun's own environment
	Stdout   string   // absolute; the log unless stdout and stderr are separate
	Stderr   string   // absolute; same as Stdout unless they are separate
	Outputs  []string // absolute paths or globs
	Inputs   []string // absolute paths or globs
	Metrics  []Metric // numbers that it leaves in its log, in files or in its result
	Config   *Config  // nil if there is none
}

// A Config is a copy of a config file with some values changed; see docs/reference/jobfile.md.
type Config struct {
	Base      string // absolute
	Path      string // absolute, where the copy belongs
	Content   []byte
	ByContent bool // the name contains a hash of the content, so the content never changes
}
