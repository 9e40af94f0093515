package expand

import (
	"slices"
)

// A Job holds the strings of one job in a file. All its expansions share them and render them on
// demand.
type Job struct {
	Line, Col int // position of the job in its file
	Matrix    *Matrix
	Name      *Text
	Suffix    []string // parameters whose values are appended to the name
	Commands  []*Text
	Setup     *Text // each command begins with it; nil for none
	Block     bool  // it is in the block dialect
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

	Told      bool       // a problem with the name was reported; do not report more of them
	Resources []Resource // keys for the scheduler, as written
}

// An Arg is one --key value appended to the last command.
type Arg struct {
	Key   string
	Value *Text
	Tag   string // type of a value without variables
}

// An Env is one NAME=value.
type Env struct {
	Name  string
	Value *Text
}

// A Config is a copy of a config file with some values changed.
type Config struct {
	Base *Text
	Path *Text // path of the copy; nil if it is next to the base
	Sets []Set
	Bad  bool // a problem with it was reported
}

// A Set is one value to set in a config file.
type Set struct {
	Path  []string
	Add   bool // a new key
	Place bool // replace the key if present, otherwise add it: the seed of an experiment list
	Value *Text
	Tag   string
}

// A Resource is a key for the scheduler, with its values as text.
type Resource struct {
	Key   string
	Texts []*Text
}

// Run returns the texts that the job runs: commands, args and env.
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

// Logs returns the paths of log, stdout and stderr, each nil if not given.
func (j *Job) Logs() []*Text { return []*Text{j.Log, j.Stdout, j.Stderr} }

// LogsUse reports whether the path of any log contains a variable of kind k.
func (j *Job) LogsUse(k VarKind) bool {
	return slices.ContainsFunc(j.Logs(), func(t *Text) bool { return t.Uses(k) })
}

// Texts returns all texts of a config; c may be nil.
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
