package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/script"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"
)

// Lints find mistakes in a batch that is otherwise valid: work that looks done but is
// not, GPUs chosen by hand, two jobs writing one file. Each has a name, by which "allow"
// in the settings or on a job switches it off. They run when a batch is checked, planned
// or run. Commands that only look at a batch skip them and so work whatever is wrong.

// Lints that no single command reveals.
const (
	lintUnused     = "unused"
	lintConfig     = "config-unused"
	lintSameOutput = "same-output"
	lintOrder      = "order"
	lintLogClash   = "log-clash"
	lintMissing    = "missing"
	lintConcurrent = "max-concurrent"
	lintOneNeed    = "one-need"
)

// lintNames lists all lints, errors first.
var lintNames = []string{
	script.Pinned, script.Background, script.Detached, lintUnused, lintConfig, lintSameOutput, lintOrder, lintLogClash,
	script.FixedPort, script.Unquoted, script.Conda, lintMissing, lintConcurrent, lintOneNeed,
	"stray", // found while a job runs
}

// parseAllow parses a list of lints to switch off.
func parseAllow(words []string) ([]string, error) {
	var list []string
	for _, w := range words {
		if w = strings.TrimSpace(w); w == "" {
			continue
		}
		if !slices.Contains(lintNames, w) {
			return nil, source.Faultf(source.DidYouMean(w, lintNames, "valid lints: "+strings.Join(lintNames, ", ")), "unknown lint %q", w)
		}
		list = append(list, w)
	}
	return list, nil
}

// allows reports whether a lint is switched off for a job.
func (f *fileJobs) allows(t *written.Job, lint string) bool {
	if slices.Contains(f.settings.Allow, lint) {
		return true
	}
	for i := range t.Resources {
		if r := &t.Resources[i]; r.Key == "allow" && slices.ContainsFunc(r.Texts, func(name expand.Text) bool { return name.Raw == lint }) {
			return true
		}
	}
	return false
}

// lint reports a finding unless it is allowed. Its errors are those that the author of
// the file may overrule.
func (f *fileJobs) lint(t *written.Job, p Problem, warn bool) {
	if f.allows(t, p.Lint) {
		return
	}
	p.File = f.src.Path
	if warn {
		f.out.Warn(p)
		return
	}
	if p.Hint != "" {
		p.Hint += "; "
	}
	p.Hint += "or, if intended, set allow: [" + p.Lint + "]"
	f.out.Add(p)
}

// lint checks one job of the file, all expansions at once.
func (p *proto) lint(f fields) {
	if !p.file.opts.Lint || p.Matrix == nil || p.Matrix.Count() == 0 {
		return
	}
	p.lintUnused(source.Child(f.at, "params"))
	p.lintConfig()
	p.lintCommands(p.block || f.get("leftovers") != nil)
}

// lintConfig reports a config copy that the job never gets to see.
func (p *proto) lintConfig() {
	c := p.Config
	if c == nil || c.Path != nil || p.runs(func(t *expand.Text) bool { return t.Uses(expand.VarConfig) }) {
		return
	}
	p.file.lint(p.Job, Problem{Lint: lintConfig, Line: c.Base.Line, Col: c.Base.Col,
		Text: fmt.Sprintf("job %q never uses its modified copy of %s: {config} is not in run, args or env", p.Name.Raw, source.Clip(c.Base.Raw)),
		Hint: "pass it to the program, for example --config {config}, or set config: null on this job"}, false)
}

// runs reports whether any text the job runs satisfies is.
func (p *proto) runs(is func(t *expand.Text) bool) bool {
	for i := range p.Commands {
		if is(&p.Commands[i]) {
			return true
		}
	}
	for i := range p.Args {
		if is(&p.Args[i].Value) {
			return true
		}
	}
	for i := range p.Env {
		if is(&p.Env[i].Value) {
			return true
		}
	}
	return false
}
