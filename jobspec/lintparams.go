package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// repeatNames are names of parameters that merely count repetitions.
var repeatNames = []string{"run", "rep", "trial", "worker", "i"}

// lintUnused reports parameters that make jobs differ in name only. A parameter with a
// single value, or zipped with one that is used, may exist for a name or path. A single
// value used nowhere is at best a label in the ledger, hence a warning. own are the job's
// own params: those from defaults need not be used by every job.
func (p *proto) lintUnused(own *yaml.Node) {
	m := p.Matrix
	if len(m.Always)+len(m.Partial) == 0 || p.file.allows(p.Job, lintUnused) {
		return
	}
	u := p.uses()
	for _, name := range slices.Concat(m.Always, m.Partial) {
		if u.reached[name] || slices.Contains(repeatNames, name) {
			continue
		}
		mates, values := m.Mates(name)
		switch {
		case values < 2 && (u.named[name] || source.Child(own, name) == nil):
		case u.named[name] && slices.ContainsFunc(mates, func(s string) bool { return u.reached[s] }):
		case p.readByScript(name) || p.inName(name) && p.readsByName():
		default:
			p.unusedParam(name, values, u.named[name])
		}
	}
}

func (p *proto) unusedParam(name string, values int, named bool) {
	line, col := p.src.Find(p.Line, p.Col, name+":")
	text := fmt.Sprintf("parameter %q never reaches the command", name)
	if named {
		text = fmt.Sprintf("parameter %q is used in names and paths only and never reaches the command", name)
	}
	if values > 1 {
		text += fmt.Sprintf(": its %d values give identical jobs", values)
	}
	p.file.lint(p.Job, Problem{Lint: lintUnused, Line: line, Col: col, Text: text,
		Hint: fmt.Sprintf("use {%s} in run or args, or read $%s in the program", name, expand.ParamEnv(name))}, values < 2)
}

// used holds the parameters that a job uses.
type used struct {
	reached map[string]bool // in what it runs, where it runs, and with which resources
	named   map[string]bool // anywhere else
}

func (p *proto) uses() used {
	u := used{map[string]bool{}, map[string]bool{}}
	p.runs(func(t *expand.Text) bool { p.mark(u.reached, t); return false })
	p.mark(u.reached, p.WorkDir)
	for i := range p.Inputs {
		p.mark(u.reached, &p.Inputs[i])
	}
	for i := range p.Resources {
		to := u.reached
		if r := &p.Resources[i]; r.Key == "desc" || r.Key == "tags" {
			to = u.named
		}
		for j := range p.Resources[i].Texts {
			p.mark(to, &p.Resources[i].Texts[j])
		}
	}
	if c := p.Config; c != nil {
		p.mark(u.reached, &c.Base)
		p.mark(u.reached, c.Path)
		for i := range c.Sets {
			p.mark(u.reached, &c.Sets[i].Value)
		}
	}
	for _, t := range []*expand.Text{&p.Name, p.Log, p.Stdout, p.Stderr, p.Queue} {
		p.mark(u.named, t)
	}
	for _, list := range [][]expand.Text{p.Outputs, p.Needs} {
		for i := range list {
			p.mark(u.named, &list[i])
		}
	}
	return u
}

// mark records the parameters in a text, and those they refer to.
func (p *proto) mark(used map[string]bool, t *expand.Text) {
	if t == nil {
		return
	}
	for i := range t.Segs {
		if g := &t.Segs[i]; g.Kind == expand.VarParam {
			p.markParam(used, g.Param)
		}
	}
	p.markEnvironment(used, t.Raw)
}

func (p *proto) markParam(used map[string]bool, name string) {
	if used[name] {
		return
	}
	used[name] = true
	for _, t := range p.Matrix.Nested[name] {
		p.mark(used, t)
	}
}

// markEnvironment records the parameters that a command reads from its environment. If it
// iterates over GPURUN_PARAM_*, it may use any.
func (p *proto) markEnvironment(used map[string]bool, raw string) {
	const prefix = "GPURUN_PARAM_"
	for rest := raw; ; {
		i := strings.Index(rest, prefix)
		if i < 0 {
			return
		}
		rest = rest[i+len(prefix):]
		end := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", r) })
		if end < 0 {
			end = len(rest)
		}
		for _, name := range slices.Concat(p.Matrix.Always, p.Matrix.Partial) {
			if end == 0 || expand.ParamEnv(name) == prefix+rest[:end] {
				p.markParam(used, name)
			}
		}
	}
}

// readByScript reports whether a file that the job runs reads the parameter from its
// environment.
func (p *proto) readByScript(name string) bool {
	used := map[string]bool{}
	for _, file := range p.scripts() {
		p.markEnvironment(used, file.text)
	}
	return used[name]
}

// inName reports whether the job's name holds the parameter.
func (p *proto) inName(name string) bool {
	used := map[string]bool{}
	p.mark(used, &p.Name)
	return used[name]
}

// readsByName reports whether a command names something that exists through the job's
// name, as in --config configs/{name}.yaml. Everything in the name reaches it then, while
// --out ckpt/{name}.pt hides a parameter that does nothing.
func (p *proto) readsByName() bool {
	v := p.Matrix.Values(p.Matrix.Combo(0), "", nil)
	v.Name = p.nameOf(&v)
	return p.runs(func(t *expand.Text) bool {
		if !slices.ContainsFunc(t.Segs, func(g expand.Segment) bool { return g.Kind == expand.VarName }) {
			return false
		}
		return slices.ContainsFunc(strings.FieldsFunc(t.Render(&v), wordBreak), func(word string) bool {
			if strings.HasPrefix(word, "-") {
				_, word, _ = strings.Cut(word, "=")
			}
			path, err := expand.Absolute(p.file.workDir, word)
			return err == nil && strings.Contains(word, v.Name) && p.file.exists(path)
		})
	})
}

// wordBreak reports whether a character separates words, or quotes them.
func wordBreak(r rune) bool { return strings.ContainsRune(" \t\n\"';", r) }
