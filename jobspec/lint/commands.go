package lint

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A commandChecker checks the commands of one job as templates.
type commandChecker struct {
	*jobChecker
	job   scriptJob
	index map[string]int // index of each placeholder by its spelling
	risky bool           // some placeholder has values that the shell would interpret
}

// maxValues bounds how many values of each parameter are checked.
const maxValues = 256

func (j *jobChecker) commands() {
	if !j.Sh() {
		return
	}
	c := &commandChecker{jobChecker: j, job: scriptJob{GPUs: j.GPUs, Env: map[string]string{}}, index: map[string]int{}}
	if !j.hasConda() {
		c.job.Conda = expand.CondaHook()
	}
	for _, e := range j.Env {
		c.job.Env[e.Name] = c.template(e.Value, false)
	}
	for i, t := range j.Commands {
		c.command(t, i == len(j.Commands)-1)
		c.syntax(t)
	}
	for _, a := range j.Args {
		key := a.Key
		if !strings.HasPrefix(key, "-") {
			key = "--" + key
		}
		c.value("x "+key+" ", a.Value)
		for _, g := range a.Value.Segs {
			if h := c.placeholder(g, true); h.Twice != "" {
				line, col := c.Source.Find(a.Value.Line, a.Value.Col, g.Lit)
				c.find(source.Problem{Lint: Unquoted, Line: line, Col: col, Text: quotedTwice(&h), Hint: "args are quoted anyway: write {" + g.Param + "}"}, true)
			}
		}
	}
	for _, e := range j.Env {
		if strings.HasSuffix(e.Name, "PORT") {
			c.value(e.Name+"=", e.Value)
		}
	}
	if j.Config != nil {
		for _, s := range j.Config.Sets {
			c.value("x ", s.Value)
		}
	}
}

// hasConda reports whether conda's function is defined, because the shell reads startup files or
// inherits it.
func (j *jobChecker) hasConda() bool {
	_, inherited := os.LookupEnv("BASH_FUNC_conda%%")
	return inherited || os.Getenv("BASH_ENV") != "" || slices.ContainsFunc(j.Shell, func(word string) bool {
		return word == "--login" || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.ContainsAny(word, "li")
	})
}

// template returns a text as the shell would see it, with a placeholder for each variable.
func (c *commandChecker) template(t *expand.Text, quoted bool) string {
	var b strings.Builder
	for _, g := range t.Segs {
		if g.Kind == expand.VarLiteral {
			b.WriteString(g.Lit)
			continue
		}
		key := g.Lit
		if quoted {
			key += "\x00"
		}
		n, ok := c.index[key]
		if !ok {
			n = len(c.job.Placeholders)
			c.index[key] = n
			c.job.Placeholders = append(c.job.Placeholders, c.placeholder(g, quoted))
		}
		b.WriteRune(placeholderRune(n))
	}
	return b.String()
}

func (c *commandChecker) placeholder(g expand.Segment, quoted bool) placeholder {
	h := placeholder{Spelt: g.Lit, Granted: g.Kind == expand.VarGPU || g.Kind == expand.VarGPUList, Quoted: quoted || g.Format == "q"}
	switch g.Kind {
	case expand.VarParam:
		c.Matrix.Formatted(g.Param, func(v expand.Param) bool {
			s := v.Text
			if g.Format != "" && g.Format != "q" {
				s, _ = expand.FormatNumber(g.Format, s)
			}
			h.Values = append(h.Values, s)
			if shellescape.Quote(s) != s {
				c.risky = c.risky || !quoted
				if g.Format == "q" && s != "" && h.Twice == "" {
					h.Twice = s
				}
			}
			return len(h.Values) < maxValues
		})
	case expand.VarWorkDir, expand.VarConfig:
		path := c.Base
		if g.Kind == expand.VarConfig && c.Config != nil {
			path, _ = expand.Absolute(path, c.Config.Base.Raw) // the copy is next to it
		}
		if c.WorkDir == nil && shellescape.Quote(path) != path {
			h.Values, c.risky = []string{path}, true
		}
	}
	return h
}

// command checks one command and the scripts it runs.
func (c *commandChecker) command(t *expand.Text, last bool) {
	c.risky = false
	from := len(c.job.Placeholders)
	template := c.template(t, false)
	list := []string{template}
	for n, h := range c.job.Placeholders[from:] { // a value may be a command of its own
		for _, v := range h.Values[:min(len(h.Values), 64)] {
			if worthChecking(v) {
				list = append(list, strings.ReplaceAll(template, string(placeholderRune(from+n)), v))
			}
		}
	}
	for _, s := range list {
		if !c.risky && !worthChecking(s) && !c.mayRunScripts(s) {
			continue
		}
		job := c.job
		if c.Hooked(s) {
			job.Conda = ""
		}
		r := checkScript(s, job)
		for _, name := range r.Scripts {
			c.script(t, c.program(name))
		}
		for _, f := range r.Findings {
			if f.Lint != Background || last && !c.Background {
				c.tell(t, f)
			}
		}
	}
}

// syntax warns about a script that the shell cannot parse. The shell itself would notice only after
// it has run the lines above the mistake.
func (c *commandChecker) syntax(t *expand.Text) {
	if slices.ContainsFunc(c.Shell, func(word string) bool { return slices.Contains([]string{"zsh", "ksh"}, path.Base(word)) }) {
		return
	}
	script, v := "", c.Matrix.Values(0, c.First)
	for _, g := range t.Segs {
		switch g.Kind {
		case expand.VarLiteral:
			script += g.Lit
		case expand.VarParam:
			script += (&expand.Text{Segs: []expand.Segment{g}}).Render(v)
		default:
			script += "0"
		}
	}
	if !strings.ContainsAny(script, "\"'`(){};|&<\n") {
		return // a simple command; most are
	}
	if l := ParseCommandLine(script); l.Err != "" {
		hint := ""
		if l.At > 1 {
			hint = "the shell runs the lines above before it finds the mistake"
		}
		line, col := lineOf(c.Source, t, min(max(0, l.At-1), strings.Count(t.Raw, "\n")))
		c.Source.Warning(line, col, hint, "the shell cannot parse this: %s", l.Err)
	}
}

// value checks a value that is passed to the program as a single word.
func (c *commandChecker) value(before string, t *expand.Text) {
	if !worthChecking(before + t.Raw) {
		return
	}
	for _, f := range checkScript(before+shellescape.Quote(c.template(t, true)), c.job).Findings {
		c.tell(t, f)
	}
}

func (c *commandChecker) tell(t *expand.Text, f finding) {
	f.Line, f.Col = t.Line, t.Col
	if at, _, _ := strings.Cut(f.At, "\n"); strings.Contains(t.Raw, at) {
		f.Line, f.Col = c.Source.Find(t.Line, t.Col, at)
	}
	c.find(f.Problem, f.Warn)
}

// script checks a file that a command runs. All findings are warnings, because the file may be run
// in another way.
func (c *commandChecker) script(t *expand.Text, p program) {
	if !worthChecking(p.text) {
		return
	}
	python := strings.HasSuffix(p.name, ".py")
	check := checkScript
	if python {
		check = checkPython
	}
	r := check(p.text, scriptJob{GPUs: c.job.GPUs, Conda: c.job.Conda, Env: c.job.Env})
	line, col := c.Source.Find(t.Line, t.Col, p.name)
	for _, f := range r.Findings {
		if f.Lint == Background && c.Background || f.Lint == Pinned && f.Warn && !python && c.passesGPUs() {
			continue
		}
		f.Text = fmt.Sprintf("%s:%d: %s", p.name, f.Line, f.Text)
		f.Line, f.Col = line, col
		c.find(f.Problem, true)
	}
}

// passesGPUs reports whether a command passes on the GPUs granted to the job.
func (c *commandChecker) passesGPUs() bool {
	return c.runs(func(t *expand.Text) bool {
		return t.Uses(expand.VarGPU) || t.Uses(expand.VarGPUList) || strings.Contains(t.Raw, "VISIBLE_DEVICES")
	})
}
