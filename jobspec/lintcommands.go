package jobspec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/script"
)

// A commandLinter checks the commands of one job of the file, as templates.
type commandLinter struct {
	*proto
	job     script.Job
	index   map[string]int // holes by spelling
	risky   bool           // some hole has values that the shell does not take literally
	inBlock bool           // work left in the background is handled
}

// maxValues bounds how many values of a parameter are checked.
const maxValues = 256

func (p *proto) lintCommands(background bool) {
	shell, login := p.shellKind()
	if !shell {
		return
	}
	c := &commandLinter{proto: p, index: map[string]int{}, inBlock: background}
	c.job.GPUs = p.mostGPUs()
	if !login {
		c.job.Conda = condaLine()
	}
	c.job.Env = map[string]string{}
	for i := range p.Env {
		c.job.Env[p.Env[i].Name] = c.template(&p.Env[i].Value, false)
	}
	for i := range p.Commands {
		c.command(&p.Commands[i], i == len(p.Commands)-1)
	}
	for i := range p.Args {
		a := &p.Args[i]
		key := a.Key
		if !strings.HasPrefix(key, "-") {
			key = "--" + key
		}
		c.value("x "+key+" ", &a.Value)
	}
	for i := range p.Env {
		if name := p.Env[i].Name; strings.HasSuffix(name, "PORT") {
			c.value(name+"=", &p.Env[i].Value)
		}
	}
	if p.Config != nil {
		for i := range p.Config.Sets {
			c.value("x ", &p.Config.Sets[i].Value)
		}
	}
}

// shellKind reports whether the commands are shell scripts, and whether the shell reads
// the user's startup files.
func (p *proto) shellKind() (shell, login bool) {
	for _, word := range p.Shell {
		shell = shell || slices.Contains([]string{"bash", "sh", "zsh", "dash", "ksh"}, filepath.Base(word))
		login = login || word == "--login" || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.ContainsAny(word, "li")
	}
	return shell || len(p.Shell) == 0, login
}

// condaLine returns the line that makes conda activate work, or "" if it already does.
func condaLine() string {
	if _, ok := os.LookupEnv("BASH_FUNC_conda%%"); ok || os.Getenv("BASH_ENV") != "" {
		return ""
	}
	conda := "conda"
	if exe := os.Getenv("CONDA_EXE"); exe != "" {
		conda = shellescape.Quote(exe)
	}
	return `eval "$(` + conda + ` shell.bash hook)"`
}

// mostGPUs returns the largest number of GPUs any expansion can be granted.
func (p *proto) mostGPUs() int {
	if p.shared != nil {
		return p.shared.Request.Max
	}
	most := -1
	for _, s := range p.specs {
		most = max(most, s.Request.Max)
	}
	return most
}

// template returns a text as the shell sees it, with a hole for each variable.
func (c *commandLinter) template(t *expand.Text, quoted bool) string {
	var b strings.Builder
	for i := range t.Segs {
		g := &t.Segs[i]
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
			n = len(c.job.Holes)
			c.index[key] = n
			c.job.Holes = append(c.job.Holes, c.hole(g, quoted))
		}
		b.WriteRune(script.HoleRune(n))
	}
	return b.String()
}

func (c *commandLinter) hole(g *expand.Segment, quoted bool) script.Hole {
	h := script.Hole{Spelt: g.Lit, Granted: g.Kind == expand.VarGPU || g.Kind == expand.VarGPUList, Quoted: quoted || g.Format == "q"}
	switch g.Kind {
	case expand.VarParam:
		c.Matrix.Formatted(g.Param, func(v Param) bool {
			s := v.Text
			if g.Format != "" && g.Format != "q" {
				s, _ = expand.FormatNumber(g.Format, s)
			}
			h.Values = append(h.Values, s)
			c.risky = c.risky || !h.Quoted && shellescape.Quote(s) != s
			return len(h.Values) < maxValues
		})
	case expand.VarWorkDir:
		if dir := c.file.workDir; c.WorkDir == nil && shellescape.Quote(dir) != dir {
			h.Values, c.risky = []string{dir}, true
		}
	}
	return h
}

// command checks one command and the scripts it runs.
func (c *commandLinter) command(t *expand.Text, last bool) {
	c.risky = false
	from := len(c.job.Holes)
	template := c.template(t, false)
	list := []string{template}
	for n, h := range c.job.Holes[from:] { // a value may itself be a command
		for _, v := range h.Values[:min(len(h.Values), 64)] {
			if script.Worth(v) {
				list = append(list, strings.ReplaceAll(template, string(script.HoleRune(from+n)), v))
			}
		}
	}
	for _, s := range list {
		var found []script.Finding
		if c.risky || script.Worth(s) || c.mayRunScripts(s) {
			r := script.Check(s, c.job)
			found = r.Findings
			for _, file := range c.named(r.Scripts) {
				c.scriptFile(t, file)
			}
		}
		for _, f := range found {
			if f.Lint != script.Background || last && !c.inBlock {
				c.tell(t, f)
			}
		}
	}
}

// value checks a value that reaches the program as one word, whatever it contains.
func (c *commandLinter) value(before string, t *expand.Text) {
	if !script.Worth(before + t.Raw) {
		return
	}
	for _, f := range script.Check(before+shellescape.Quote(c.template(t, true)), c.job).Findings {
		c.tell(t, f)
	}
}

func (c *commandLinter) tell(t *expand.Text, f script.Finding) {
	at, _, _ := strings.Cut(f.At, "\n")
	line, col := t.Line, t.Col
	if strings.Contains(t.Raw, at) {
		line, col = c.src.Find(t.Line, t.Col, at)
	}
	c.file.lint(c.Job, Problem{Lint: f.Lint, Line: line, Col: col, Text: f.Text, Hint: f.Hint}, f.Warn)
}

// scriptFile checks a file that a command runs. The file may be run differently, so all
// its findings are warnings.
func (c *commandLinter) scriptFile(t *expand.Text, file *scriptFile) {
	if !script.Worth(file.text) {
		return
	}
	var r script.Report
	if strings.HasSuffix(file.name, ".py") {
		r = script.CheckPython(file.text, c.job)
	} else {
		r = script.Check(file.text, script.Job{GPUs: c.job.GPUs, Conda: c.job.Conda, Env: c.job.Env})
	}
	line, col := c.src.Find(t.Line, t.Col, file.name)
	for _, f := range r.Findings {
		if f.Lint == script.Background && c.inBlock || f.Lint == script.Pinned && f.Warn && c.passesGPUs() && !strings.HasSuffix(file.name, ".py") {
			continue
		}
		c.file.lint(c.Job, Problem{Lint: f.Lint, Line: line, Col: col, Text: fileLine(file.name, f.Line) + f.Text, Hint: f.Hint}, true)
	}
}

// passesGPUs reports whether a command passes on the GPUs granted to the job.
func (c *commandLinter) passesGPUs() bool {
	return c.runs(func(t *expand.Text) bool {
		return t.Uses(expand.VarGPU) || t.Uses(expand.VarGPUList) || strings.Contains(t.Raw, "VISIBLE_DEVICES")
	})
}
