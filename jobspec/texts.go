package jobspec

import "gpurun/jobspec/expand"

// texts are the strings of one job of the file, shared by all its expansions and
// rendered anew for each that is looked at.
type texts struct {
	line, col int // where the job is in its file
	matrix    *expand.Matrix
	name      expand.Text
	suffix    []string // parameters whose values are appended to the name
	commands  []expand.Text
	args      []argText
	env       []envText
	shell     []string
	workDir   *expand.Text
	log       *expand.Text // stdout and stderr combined
	stdout    *expand.Text
	stderr    *expand.Text
	outputs   []expand.Text
	inputs    []expand.Text
	config    *configText
	queue     *expand.Text
	needs     []expand.Text

	told      bool       // one of its names was refused, which is reported only once
	asList    bool       // an experiment-list job: Print writes out what it implies
	resources []resource // as given, for Print and for Specs
}

// An argText is one --key value appended to the last command.
type argText struct {
	key   string
	value expand.Text
	tag   string // of a value without variables
}

// An envText is one NAME=value.
type envText struct {
	name  string
	value expand.Text
}

// A configText is a copy of a config file with some values changed.
type configText struct {
	base expand.Text
	path *expand.Text // where the copy goes; nil for beside the base
	sets []setText
	bad  bool // a problem with it was reported
}

// A setText is one value to set in a config file.
type setText struct {
	path  []string
	add   bool // a new key
	place bool // replace it if present, otherwise add it: the seed of an experiment list
	value expand.Text
	tag   string
}
