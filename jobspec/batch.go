package jobspec

import (
	"time"

	"gpurun/gpu"
)

// A Batch is what a run is about: the jobs of all its files, earlier files first.
type Batch struct {
	Files    []File
	Jobs     []Job
	Queues   []string // "path\x00queue" for messages and identity; queues of different files are different
	Settings Settings
	Warnings []Problem // worth saying, nothing wrong

	clashing map[string]bool // logs that are also the name of another's old log

	bases map[string][]byte // config files that jobs copy, as they were when the keys were made
}

// A File is one job file of a batch.
type File struct {
	Path    string // as it was given
	Real    string // absolute, links resolved
	Dialect string // "native", "experiment list", "block"; for people
	WorkDir string // absolute
	First   int    // ID of its first job
	Count   int    // number of its jobs
	UniID   string // absolute path of logs/uni_id.json, block dialect only

	dir string // the work dir as written
}

// Settings are the batch's, after flags, files, config.yaml and the user's own defaults.
type Settings struct {
	MaxConcurrent int // 0 for as many as the GPUs take
	MinMemory     gpu.Bytes
	MaxUtil       int
	Poll          time.Duration
	MaxWait       time.Duration // 0 for ever
	GPUIDs        []string
	Reserve       int
	MinGPUs       int // -1 when not given
	MaxGPUs       int // -1 when not given
	Share         bool
	Others        gpu.Others
	Pick          gpu.Pick
	Order         string // file, shuffle, largest-first
	ShuffleSeed   int64
	Patience      time.Duration
	Grace         time.Duration
	FailFast      bool
	Program       string
	SeedAs        string
	Breaker       int // a family whose first so many attempts failed alike is held; 0 never

	Allow []string // lints that are switched off

	Sources []Setting // every setting as text with where it came from, for plan -v, in the order of the reference
}

// A Setting is one line of plan -v.
type Setting struct {
	Name, Value, Source string // Source: "default", "jobs.yaml:3", "--max-util", "~/.config/gpurun/config.yaml"
}

// Options are what the command line says about reading files.
type Options struct {
	Format     string            // "", "yaml" or "block"
	Config     string            // --config: the block dialect's settings file; "" for config.yaml beside the job file
	Flags      map[string]string // setting name with hyphens → text as typed; bare sizes are MiB, bare times seconds
	UserConfig string            // path of the user's own defaults; "" for none; a missing file is no error
	Lint       bool              // also report what looks wrong: the batch is to be run
}

// A Problem is one thing wrong, or worth a warning, in a job file.
type Problem struct {
	File string // as given
	Line int    // 1-based; 0 when it concerns the whole file
	Col  int    // 1-based, in characters; 0 when unknown
	Text string // what is wrong, with the offending text quoted
	Hint string // a fix or the nearest known word, or ""
	Lint string // the lint that found it, by which it can be allowed, or ""
}
