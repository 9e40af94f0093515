package jobspec

import (
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/block"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// A dialect is a format of job files, with functions that read its settings and its jobs.
type dialect struct {
	format   string // its name for --format
	read     func(f *fileJobs)
	settings func(f *fileJobs) []settings.Given
	jobs     func(f *fileJobs)
}

var (
	blocks     = dialect{"block", (*fileJobs).readBlocks, (*fileJobs).blockSettings, (*fileJobs).blockJobs}
	yamlFormat = dialect{"yaml", (*fileJobs).readYAML, (*fileJobs).yamlSettings, (*fileJobs).yamlJobs}
	lineList   = dialect{"lines", (*fileJobs).readLines, func(*fileJobs) []settings.Given { return nil }, (*fileJobs).lineJobs}
)

// Formats are the valid values of --format.
var Formats = []string{yamlFormat.format, blocks.format, lineList.format}

// A style holds the defaults for one kind of job. A YAML file may contain both native jobs and
// experiments.
type style struct {
	name    string // name of the dialect, for display
	share   bool   // jobs may share GPUs
	anyUtil bool   // jobs may use GPUs however busy they are
	ownUtil bool   // max_util applies even to jobs that share GPUs with only this user's processes
	spec    Spec   // the Spec of a job before its keys are read
}

var (
	native     = &style{name: "native", spec: Spec{When: OnSuccess, Request: gpu.Request{Min: 1, Max: 1}, Leftovers: "auto"}}
	experiment = &style{name: "experiment list", share: true, ownUtil: true, spec: native.spec}
	ofLines    = &style{name: "lines", spec: native.spec}
	ofBlocks   = &style{name: "block", anyUtil: true, spec: Spec{When: OnSuccess, Tree: true, Retry: Retry{Max: -1, BackoffAfter: 3, Backoff: 10 * time.Minute}}}
)

// dialectOf returns a file's dialect, which the user may have specified. It never guesses that a
// file is a list of lines, because almost any text would qualify.
func (l *loader) dialectOf(s *source.Source) *dialect {
	format := l.opts.Format
	set, listed := l.opts.Lines[s.Path]
	switch {
	case listed && !(set.Kept && (isYAML(s) || block.IsBlockFile(s.Data))) || format == lineList.format:
		return &lineList
	case format == blocks.format || format == "" && isBlocks(s):
		return &blocks
	}
	return &yamlFormat
}
