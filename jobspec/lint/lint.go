// Package lint finds mistakes in valid batches: work that seems done but is not, GPUs chosen by
// hand, two jobs that write the same file. Each lint has a name; to disable it, users list the name
// under "allow", in the settings or on a job. Lints run when a batch is checked, planned or run.
// Commands that only display a batch skip lints.
package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// These are the names of the lints: first those that check a single command, then those that check
// more.
const (
	Pinned     = "pinned"
	Background = "background"
	Detached   = "detached"
	FixedPort  = "fixed-port"
	Unquoted   = "unquoted"
	Conda      = "conda"

	Unused     = "unused"
	Config     = "config-unused"
	SameOutput = "same-output"
	Order      = "order"
	LogClash   = "log-clash"
	Missing    = "missing"
	Concurrent = "max-concurrent"
	OneNeed    = "one-need"
	Prune      = "prune"
)

// Names lists all lints, errors first.
var Names = []string{
	Pinned, Background, Detached, Unused, Config, SameOutput, Order, LogClash,
	FixedPort, Unquoted, Conda, Missing, Concurrent, OneNeed, Prune,
	"stray", // detected while a job runs
}

// ParseAllow parses a list of lints to disable.
func ParseAllow(words []string) ([]string, error) {
	var list []string
	for _, w := range words {
		if w = strings.TrimSpace(w); w == "" {
			continue
		}
		if !slices.Contains(Names, w) {
			return nil, source.Faultf(source.DidYouMean(w, Names, "valid lints: "+strings.Join(Names, ", ")), "unknown lint %q", w)
		}
		list = append(list, w)
	}
	return list, nil
}

// A Checker checks the jobs of one batch.
type Checker struct {
	out    *source.Report
	Allow  []string // lints disabled in the settings
	Remote bool     // jobs run on other hosts, where other files may exist

	programs map[string]program // files that jobs run, by path
	there    map[string]bool    // paths checked for existence
	searches int                // number of commands parsed only to find scripts
}

// New returns a Checker that reports to out.
func New(out *source.Report) *Checker {
	return &Checker{out: out, programs: map[string]program{}, there: map[string]bool{}}
}

// A Job is one job in a file, with all its expansions.
type Job struct {
	*expand.Job
	Source     *source.Source
	Base       string     // the file's work dir
	GPUs       int        // maximum number of GPUs that any expansion can get; -1 if unknown
	Background bool       // work left in the background is intended: the job is a block or sets leftovers
	First      string     // the name of its first expansion
	Unread     bool       // some of its texts could not be read, so what it uses is unknown
	Params     *yaml.Node // the job's own params
}

// Find reports a finding in a job, unless its lint is disabled. The finding is an error or, if warn
// is set, a warning.
func (c *Checker) Find(src *source.Source, j *expand.Job, p source.Problem, warn bool) {
	if c.allows(j, p.Lint) {
		return
	}
	p.File = src.Path
	if warn {
		c.out.Warn(p)
		return
	}
	if p.Hint != "" {
		p.Hint += "; "
	}
	p.Hint += "or, if intended, set allow: [" + p.Lint + "]"
	c.out.Add(p)
}

func (c *Checker) allows(j *expand.Job, lint string) bool {
	return slices.Contains(c.Allow, lint) || slices.ContainsFunc(j.Resources, func(r expand.Resource) bool {
		return r.Key == "allow" && slices.ContainsFunc(r.Texts, func(name *expand.Text) bool { return name.Raw == lint })
	})
}

// A jobChecker checks one job.
type jobChecker struct {
	*Checker
	Job
	context scriptJob      // of its commands
	index   map[string]int // index of each placeholder by its spelling
	risky   bool           // some placeholder of a command has values that the shell would interpret
}

// Check checks one job.
func (c *Checker) Check(job Job) {
	j := &jobChecker{Checker: c, Job: job, index: map[string]int{}}
	if !j.Unread {
		j.unused()
		j.unusedConfig()
	}
	j.commands()
}

func (j *jobChecker) find(p source.Problem, warn bool) { j.Find(j.Source, j.Job.Job, p, warn) }

// unusedConfig reports a config copy that the job does not use.
func (j *jobChecker) unusedConfig() {
	c := j.Config
	if c == nil || c.Path != nil || c.Base.Raw == "" || j.runs(func(t *expand.Text) bool { return t.Uses(expand.VarConfig) }) {
		return
	}
	j.find(source.Problem{Lint: Config, Line: c.Base.Line, Col: c.Base.Col,
		Text: fmt.Sprintf("job %q never uses its modified copy of %s: no {config} in run, args or env", j.Name.Raw, source.Clip(c.Base.Raw)),
		Hint: "pass it to the program, for example --config {config}, or set config: null on this job"}, false)
}

// runs reports whether any text that the job runs meets the condition.
func (j *jobChecker) runs(is func(t *expand.Text) bool) bool {
	return slices.ContainsFunc(j.Run(), is)
}

// maxAsked bounds how many paths of a batch are checked for existence.
const maxAsked = 1000

// exists reports whether a path exists, as far as this user can see. It returns true if the path
// cannot be checked, or after maxAsked checks.
func (c *Checker) exists(path string) bool {
	there, known := c.there[path]
	if !known {
		if len(c.there) == maxAsked || !source.Reachable(path) {
			return true
		}
		_, err := os.Stat(path)
		there = !errors.Is(err, fs.ErrNotExist)
		c.there[path] = there
	}
	return there
}
