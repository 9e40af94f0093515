// Package written holds one job of a job file as it was written: its texts, before its
// matrix is expanded, and what they say for one expansion.
package written

import (
	"slices"

	"gpurun/jobspec/expand"
)

// A Job holds the strings of one job of a file, shared by all its expansions and
// rendered anew for each that is looked at.
type Job struct {
	Line, Col int // where the job is in its file
	Matrix    *expand.Matrix
	Name      *expand.Text
	Suffix    []string // parameters whose values are appended to the name
	Commands  []*expand.Text
	Setup     *expand.Text // with which each command begins; nil for none
	Block     bool         // of the block dialect
	Args      []Arg
	Env       []Env
	Shell     []string
	WorkDir   *expand.Text
	Log       *expand.Text // stdout and stderr combined
	Stdout    *expand.Text
	Stderr    *expand.Text
	Outputs   []*expand.Text
	Inputs    []*expand.Text
	Config    *Config
	Metrics   []Metric
	Queue     *expand.Text
	Needs     []*expand.Text

	Told      bool       // one of its names was refused, which is reported only once
	Resources []Resource // what the scheduler reads, as given
}

// An Arg is one --key value appended to the last command.
type Arg struct {
	Key   string
	Value *expand.Text
	Tag   string // of a value without variables
}

// An Env is one NAME=value.
type Env struct {
	Name  string
	Value *expand.Text
}

// A Config is a copy of a config file with some values changed.
type Config struct {
	Base *expand.Text
	Path *expand.Text // where the copy goes; nil for beside the base
	Sets []Set
	Bad  bool // a problem with it was reported
}

// A Set is one value to set in a config file.
type Set struct {
	Path  []string
	Add   bool // a new key
	Place bool // replace it if present, otherwise add it: the seed of an experiment list
	Value *expand.Text
	Tag   string
}

// A Resource is one of the keys that the scheduler reads, its values as text.
type Resource struct {
	Key   string
	Texts []*expand.Text
}

// Run returns the texts of what the job runs: commands, args and env.
func (j *Job) Run() []*expand.Text {
	texts := slices.Clone(j.Commands)
	for _, a := range j.Args {
		texts = append(texts, a.Value)
	}
	for _, e := range j.Env {
		texts = append(texts, e.Value)
	}
	return texts
}

// Logs returns the paths of its output: log, stdout and stderr, nil where not given.
func (j *Job) Logs() []*expand.Text { return []*expand.Text{j.Log, j.Stdout, j.Stderr} }

// LogsUse reports whether the path of a log uses a variable.
func (j *Job) LogsUse(k expand.VarKind) bool {
	return slices.ContainsFunc(j.Logs(), func(t *expand.Text) bool { return t.Uses(k) })
}

// Texts returns all texts of a config, if there is one.
func (c *Config) Texts() []*expand.Text {
	if c == nil {
		return nil
	}
	texts := []*expand.Text{c.Base, c.Path}
	for _, s := range c.Sets {
		texts = append(texts, s.Value)
	}
	return texts
}
