package expand

import (
	"slices"
)

// A Job holds the strings of one job of a file, shared by all its expansions and
// rendered anew for each that is looked at.
type Job struct {
	Line, Col int // where the job is in its file
	Matrix    *Matrix
	Name      *Text
	Suffix    []string // parameters whose values are appended to the name
	Commands  []*Text
	Setup     *Text // with which each command begins; nil for none
	Block     bool  // of the block dialect
	Args      []Arg
	Env       []Env
	Shell     []string
	WorkDir   *Text
	Log       *Text // stdout and stderr combined
	Stdout    *Text
	Stderr    *Text
	Outputs   []*Text
	Inputs    []*Text
	Config    *Config
	Metrics   []Metric
	Queue     *Text
	Needs     []*Text

	Told      bool       // one of its names was refused, which is reported only once
	Resources []Resource // what the scheduler reads, as given
}

// An Arg is one --key value appended to the last command.
type Arg struct {
	Key   string
	Value *Text
	Tag   string // of a value without variables
}

// An Env is one NAME=value.
type Env struct {
	Name  string
	Value *Text
}

// A Config is a copy of a config file with some values changed.
type Config struct {
	Base *Text
	Path *Text // where the copy goes; nil for beside the base
	Sets []Set
	Bad  bool // a problem with it was reported
}

// A Set is one value to set in a config file.
type Set struct {
	Path  []string
	Add   bool // a new key
	Place bool // replace it if present, otherwise add it: the seed of an experiment list
	Value *Text
	Tag   string
}

// A Resource is one of the keys that the scheduler reads, its values as text.
type Resource struct {
	Key   string
	Texts []*Text
}

// Run returns the texts of what the job runs: commands, args and env.
func (j *Job) Run() []*Text {
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
func (j *Job) Logs() []*Text { return []*Text{j.Log, j.Stdout, j.Stderr} }

// LogsUse reports whether the path of a log uses a variable.
func (j *Job) LogsUse(k VarKind) bool {
	return slices.ContainsFunc(j.Logs(), func(t *Text) bool { return t.Uses(k) })
}

// Texts returns all texts of a config, if there is one.
func (c *Config) Texts() []*Text {
	if c == nil {
		return nil
	}
	texts := []*Text{c.Base, c.Path}
	for _, s := range c.Sets {
		texts = append(texts, s.Value)
	}
	return texts
}
