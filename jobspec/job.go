// Package jobspec turns job files into a Batch: plain jobs in the file's order,
// after all expansion, with their dependency graph. Three dialects go in (native
// YAML, experiment lists, blocks); nothing that comes out says which it was, but
// for the few rules that a dialect changes, and those are fields.
//
// A Job is immutable. What thousands of expansions share stands once, in a Spec;
// texts that hold {variables} are rendered only when a job is looked at or
// starts, so that a batch of a million jobs fits into memory.
//
// Load reports every problem of every file at once, and never half a batch.
package jobspec

import (
	"encoding/hex"
	"time"

	"gpurun/gpu"
)

// Key is the hash of what a job does, and its identity in the ledger.
type Key [16]byte

// String is the key as the ledger has it, 32 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey reads what String printed.
func ParseKey(s string) (Key, bool) {
	var k Key
	if len(s) != 2*len(k) {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

// When says which ends of a job's needs let it run.
type When string

const (
	OnSuccess When = "success" // all needs succeeded
	OnFailure When = "failure" // some need failed, and all have ended
	Always    When = "always"  // all needs have ended
)

// Retry says whether and when a failed attempt is followed by another.
type Retry struct {
	Max          int           // retries after the first attempt; -1 without end
	Delay        time.Duration // before each
	BackoffAfter int           // after every so many failures comes Backoff instead; 0 never
	Backoff      time.Duration
	On           []string // kinds of failure: oom, timeout, signal, exit, lost; empty for all
	MemoryGrowth float64  // factor on gpu_memory after an oom; 0 or 1 for none
}

// A Job is one thing that can be attempted.
type Job struct {
	ID    int    // its index in Batch.Jobs
	File  int    // index in Batch.Files
	Name  string // unique in its file
	Key   Key
	Spec  *Spec
	Needs []int32 // IDs, ascending, each once
	Queue int32   // index in Batch.Queues, or -1
	combo int32   // which expansion of its matrix it is
}

// A Param is one parameter of a job, its value as it is spelt in the file.
type Param struct {
	Name string
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
}

// Params are the job's parameters, in the file's order. The caller must not change them.
func (j *Job) Params() []Param { return j.values().resolved() }

// values are what is known of its variables before it starts.
func (j *Job) values() *values {
	if j.Spec == nil || j.Spec.text == nil || j.Spec.text.matrix == nil {
		return &values{name: j.Name}
	}
	v := j.Spec.text.matrix.values(j.combo, j.Name, nil)
	return &v
}

// A Spec is what the scheduler needs to know of a job, shared by all expansions
// that agree in it. Its texts are reached through Job.Render.
type Spec struct {
	Request    gpu.Request // GPUs
	CPUs       int         // cores set aside
	CPUsGiven  bool        // the job file says cpus
	Memory     gpu.Bytes   // host memory set aside
	Priority   int         // higher first
	When       When
	Timeout    time.Duration // 0 for none
	Grace      time.Duration // between SIGTERM and SIGKILL
	Retry      Retry
	Tree       bool   // block dialect: the job has ended when no process of its tree is left, and uni_id.json decides
	Leftovers  string // what becomes of processes that outlive the last command: auto, wait, kill, fail; "" with Tree
	LogNamed   bool   // the job file names a log
	HasOutputs bool
	HasInputs  bool
	Family     uint64 // equal for jobs that differ only in parameters
	Tags       []string
	Allow      []string // objections switched off by name: "stray"
	Desc       string

	DefaultMemory bool // Request.Memory is the default min_memory: Batch.FitDefaults may lower it

	text *texts // unrendered strings; owned by this package
}

// A Runtime is what only an attempt knows.
type Runtime struct {
	UniID   string
	Attempt int    // 1, 2, …
	GPUs    []int  // the host's indices
	Port    int    // {port}
	Log     string // absolute path of the log, where the job file names none
}

// Rendered is a job with every variable put in: what an attempt runs.
type Rendered struct {
	Commands []string // in order, each in a shell of its own
	Shell    []string // argv before the command; nil for the default (bash where there is one)
	WorkDir  string   // absolute
	Env      []string // NAME=value, the job file's env and GPURUN_PARAM_…; not gpurun's own environment
	Stdout   string   // absolute; the log, where stdout and stderr are not apart
	Stderr   string   // absolute; same as Stdout where they are not apart
	Outputs  []string // absolute paths or globs
	Inputs   []string // absolute paths or globs
	Config   *Config  // nil without config
}

// A Config is a copy of a config file with some values changed; see jobfile.md section 5.
type Config struct {
	Path      string // absolute, where the copy belongs
	Content   []byte
	ByContent bool // the name holds a hash of the content, and never gets another
}
