package jobspec

// texts are the strings of one job of the file, shared by all its expansions and
// rendered anew for each that is looked at.
type texts struct {
	line, col int // where the job is in its file
	matrix    *matrix
	name      text
	suffix    []string // parameters whose values are appended to the name
	commands  []text
	args      []argText
	env       []envText
	shell     []string
	workDir   *text
	log       *text // stdout and stderr combined
	stdout    *text
	stderr    *text
	outputs   []text
	inputs    []text
	config    *configText
	queue     *text
	needs     []text

	told      bool       // one of its names was refused, which is reported only once
	asList    bool       // an experiment-list job: Print writes out what it implies
	resources []resource // as given, for Print and for Specs
}

// An argText is one --key value appended to the last command.
type argText struct {
	key   string
	value text
	tag   string // of a value without variables
}

// An envText is one NAME=value.
type envText struct {
	name  string
	value text
}

// A configText is a copy of a config file with some values changed.
type configText struct {
	base text
	path *text // where the copy goes; nil for beside the base
	sets []setText
	bad  bool // a problem with it was reported
}

// A setText is one value to set in a config file.
type setText struct {
	path  []string
	add   bool // a new key
	place bool // replace it if present, otherwise add it: the seed of an experiment list
	value text
	tag   string
}
