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

// maxValues bounds how many values of each parameter are checked.
const maxValues = 256

// commands checks the commands of the job and the values passed to them, all as templates.
func (j *jobChecker) commands() {
	if !j.Sh() {
		return
	}
	j.context = scriptJob{GPUs: j.GPUs, Env: map[string]string{}}
	if !j.hasConda() {
		j.context.Conda = expand.CondaHook()
	}
	for _, e := range j.Env {
		j.context.Env[e.Name] = j.template(e.Value, false)
	}
	for i, t := range j.Commands {
		j.command(t, i == len(j.Commands)-1)
		j.syntax(t)
	}
	for _, a := range j.Args {
		key := a.Key
		if !strings.HasPrefix(key, "-") {
			key = "--" + key
		}
		j.value("x "+key+" ", a.Value)
		for _, g := range a.Value.Segs {
			if h := j.placeholder(g, true); h.Twice != "" {
				line, col := j.Source.Find(a.Value.Line, a.Value.Col, g.Lit)
				j.find(source.Problem{Lint: Unquoted, Line: line, Col: col, Text: quotedTwice(&h), Hint: "args are quoted anyway: write {" + g.Param + "}"}, true)
			}
		}
	}
	for _, e := range j.Env {
		if strings.HasSuffix(e.Name, "PORT") {
			j.value(e.Name+"=", e.Value)
		}
	}
	if j.Config != nil {
		for _, s := range j.Config.Sets {
			j.value("x ", s.Value)
		}
	}
}

// hasConda reports whether the job's shell probably has conda's function, because it inherits the
// function or reads startup files.
func (j *jobChecker) hasConda() bool {
	_, inherited := os.LookupEnv("BASH_FUNC_conda%%")
	return inherited || os.Getenv("BASH_ENV") != "" || slices.ContainsFunc(j.Shell, func(word string) bool {
		return word == "--login" || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.ContainsAny(word, "li")
	})
}

// template returns a text as the shell would see it, with a placeholder for each variable.
func (j *jobChecker) template(t *expand.Text, quoted bool) string {
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
		n, ok := j.index[key]
		if !ok {
			n = len(j.context.Placeholders)
			j.index[key] = n
			j.context.Placeholders = append(j.context.Placeholders, j.placeholder(g, quoted))
		}
		b.WriteRune(placeholderRune(n))
	}
	return b.String()
}

func (j *jobChecker) placeholder(g expand.Segment, quoted bool) placeholder {
	h := placeholder{Spelt: g.Lit, Granted: g.Kind == expand.VarGPU || g.Kind == expand.VarGPUList, Quoted: quoted || g.Format == "q"}
	switch g.Kind {
	case expand.VarParam:
		j.Matrix.Formatted(g.Param, func(v expand.Param) bool {
			s := v.Text
			if g.Format != "" && g.Format != "q" {
				s, _ = expand.FormatNumber(g.Format, s)
			}
			h.Values = append(h.Values, s)
			if shellescape.Quote(s) != s {
				j.risky = j.risky || !quoted
				if g.Format == "q" && s != "" && h.Twice == "" {
					h.Twice = s
				}
			}
			return len(h.Values) < maxValues
		})
	case expand.VarWorkDir, expand.VarConfig:
		path := j.Base
		if g.Kind == expand.VarConfig && j.Config != nil {
			path, _ = expand.Absolute(path, j.Config.Base.Raw) // the copy is next to the base
		}
		if j.WorkDir == nil && shellescape.Quote(path) != path {
			h.Values, j.risky = []string{path}, true
		}
	}
	return h
}

// command checks one command and the scripts it runs.
func (j *jobChecker) command(t *expand.Text, last bool) {
	j.risky = false
	from := len(j.context.Placeholders)
	template := j.template(t, false)
	list := []string{template}
	for n, h := range j.context.Placeholders[from:] { // a value may be a command of its own
		for _, v := range h.Values[:min(len(h.Values), 64)] {
			if worthChecking(v) {
				list = append(list, strings.ReplaceAll(template, string(placeholderRune(from+n)), v))
			}
		}
	}
	for _, s := range list {
		if !j.risky && !worthChecking(s) && !j.mayRunScripts(s) {
			continue
		}
		job := j.context
		if j.Hooked(s) {
			job.Conda = ""
		}
		r := checkScript(s, job)
		for _, name := range r.Scripts {
			j.script(t, j.program(name))
		}
		for _, f := range r.Findings {
			if f.Lint != Background || last && !j.Background {
				j.tell(t, f)
			}
		}
	}
}

// syntax warns about a script that the shell cannot parse. The shell itself would notice only after
// it has run the lines above the mistake.
func (j *jobChecker) syntax(t *expand.Text) {
	if slices.ContainsFunc(j.Shell, func(word string) bool { return slices.Contains([]string{"zsh", "ksh"}, path.Base(word)) }) {
		return
	}
	script, v := "", j.Matrix.Values(0, j.First)
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
		line, col := lineOf(j.Source, t, min(max(0, l.At-1), strings.Count(t.Raw, "\n")))
		j.Source.Warning(line, col, hint, "the shell cannot parse this: %s", l.Err)
	}
}

// value checks a value that is passed to the program as a single word.
func (j *jobChecker) value(before string, t *expand.Text) {
	if !worthChecking(before + t.Raw) {
		return
	}
	for _, f := range checkScript(before+shellescape.Quote(j.template(t, true)), j.context).Findings {
		j.tell(t, f)
	}
}

func (j *jobChecker) tell(t *expand.Text, f finding) {
	f.Line, f.Col = t.Line, t.Col
	if at, _, _ := strings.Cut(f.At, "\n"); strings.Contains(t.Raw, at) {
		f.Line, f.Col = j.Source.Find(t.Line, t.Col, at)
	}
	j.find(f.Problem, f.Warn)
}

// script checks a file that a command runs. All findings are warnings, because the command may not
// run the file the way that the check assumes.
func (j *jobChecker) script(t *expand.Text, p program) {
	if !worthChecking(p.text) {
		return
	}
	python := strings.HasSuffix(p.name, ".py")
	check := checkScript
	if python {
		check = checkPython
	}
	r := check(p.text, scriptJob{GPUs: j.context.GPUs, Conda: j.context.Conda, Env: j.context.Env})
	line, col := j.Source.Find(t.Line, t.Col, p.name)
	for _, f := range r.Findings {
		if f.Lint == Background && j.Background || f.Lint == Pinned && f.Warn && !python && j.passesGPUs() {
			continue
		}
		f.Text = fmt.Sprintf("%s:%d: %s", p.name, f.Line, f.Text)
		f.Line, f.Col = line, col
		j.find(f.Problem, true)
	}
}

// passesGPUs reports whether any command passes the job's GPUs on to the program it runs.
func (j *jobChecker) passesGPUs() bool {
	return j.runs(func(t *expand.Text) bool {
		return t.Uses(expand.VarGPU) || t.Uses(expand.VarGPUList) || strings.Contains(t.Raw, "VISIBLE_DEVICES")
	})
}
