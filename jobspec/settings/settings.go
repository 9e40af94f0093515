// Package settings reads the settings of a batch from flags, job files and the user's defaults, and
// records the source of each.
package settings

import (
	"strconv"
	"time"

	"gpurun/gpu"
)

// Settings are the settings of a batch. Flags override job files (or the config.yaml of a block
// file), which override the user's defaults.
type Settings struct {
	MaxConcurrent int // 0 for no limit except the GPUs
	MinMemory     gpu.Bytes
	MaxUtil       int
	Poll          time.Duration
	MaxWait       time.Duration // 0 for no limit
	GPUIDs        []string
	Reserve       int
	MinGPUs       int       // -1 if not given
	MaxGPUs       int       // -1 if not given
	Hours         gpu.Hours // times at which jobs may start
	Background    bool      // give way to all runs that are not in the background
	Share         bool
	Slots         int // maximum jobs per GPU; 0 for no limit except its memory
	Others        gpu.Others
	Pick          gpu.Pick
	Order         string // file, shuffle, largest-first, longest-first
	ShuffleSeed   int64
	Patience      time.Duration
	Grace         time.Duration
	FailFast      bool
	Program       string
	SeedAs        string
	Breaker       int  // hold a group of jobs if its first Breaker attempts fail with the same error; 0 for never
	Learn         bool // use the time and memory of earlier jobs in the seed group
	Snapshot      bool // jobs run in a copy of the code
	Pools         []Pool
	Engine        string            // local, or a kind of cluster
	Cluster       map[string]string // settings that only clusters have; extra has one argument per line
	Notify        []Notify          // notification targets

	Allow []string // disabled lints

	Sources []Setting // all settings with their sources, for plan -v, in the order of the reference
}

// A Pool is a limited resource that jobs share. Its size is in units that the user chooses.
type Pool struct {
	Name string
	Size int
}

// A Setting is one line of plan -v.
type Setting struct {
	Name, Value, Source string // Source: "default", "jobs.yaml:3", "--max-util", "~/.config/gpurun/config.yaml"
}

// LongestFirst is the order that starts the longest jobs first. It estimates a job's duration from
// similar jobs.
const LongestFirst = "longest-first"

// Defaults returns the default settings.
func Defaults() Settings {
	return Settings{
		MinMemory: 8000 * gpu.MiB, MaxUtil: 30, Poll: 5 * time.Second,
		MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.MostFree, Order: "file",
		Patience: 10 * time.Minute, Grace: 10 * time.Second,
		Program: "python test.py", SeedAs: "config", Breaker: 5, Learn: true, Engine: "local",
	}
}

// DrawShuffleSeed sets the seed of a shuffled batch to the result of draw, unless the user set one,
// so that different runs favor different jobs. Call it before the batch is scheduled. It reports
// whether jobs are shuffled.
func (s *Settings) DrawShuffleSeed(draw func() int64) bool {
	if s.Order != "shuffle" {
		return false
	}
	for i := range s.Sources {
		if from := &s.Sources[i]; from.Name == "shuffle_seed" && from.Source == "default" {
			s.ShuffleSeed = draw()
			from.Value, from.Source = strconv.FormatInt(s.ShuffleSeed, 10), "drawn for this run"
		}
	}
	return true
}

// ShuffleSeedNamed reports whether the user set the seed. Call it before DrawShuffleSeed.
func (s *Settings) ShuffleSeedNamed() bool {
	for _, from := range s.Sources {
		if from.Name == "shuffle_seed" {
			return from.Source != "default"
		}
	}
	return false
}
