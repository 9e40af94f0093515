package lint

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gpurun/jobspec/expand"
)

// An arg is a word of a command and what it evaluates to.
type arg struct {
	value
	word *syntax.Word
}

// wrappers run the command that follows their own options.
var wrappers = []string{"nohup", "time", "nice", "ionice", "env", "sudo", "exec", "command", "builtin", "stdbuf", "timeout", "setsid", "numactl", "taskset", "chrt", "srun"}

// unwrap evaluates the words of a command and strips what precedes the actual program: nohup,
// timeout 5h, env NAME=value.
func (l *linter) unwrap(words []*syntax.Word) []arg {
	args := make([]arg, len(words))
	for i, w := range words {
		args[i] = arg{l.eval(w), w}
	}
	for len(args) > 0 && slices.Contains(wrappers, args[0].prefix) {
		args = args[1:]
		for len(args) > 0 && isWrapperOption(args[0].prefix) {
			args = args[1:]
		}
	}
	return args
}

func isWrapperOption(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9' || strings.Contains(s, "=") && !strings.HasPrefix(s, "/"))
}

// quietCommands do no work on a GPU, whatever their arguments.
var quietCommands = []string{"echo", "printf", "grep", "sed", "awk", "kill", "pkill", "git", "cat", "rm", "ls", "mkdir", "cp", "mv", "test", "[", "tee", "touch", "ln", "export", "read", "trap"}

// call checks one simple command.
func (l *linter) call(c *syntax.CallExpr, maybe bool) {
	args := l.unwrap(c.Args)
	l.environment(c, len(c.Args)-len(args), maybe)
	l.arguments(c, args)
	if len(args) == 0 {
		return
	}
	name := path.Base(args[0].prefix)
	rest := args[1:]
	if slices.Contains(expand.Shells, name) {
		l.nested(c, rest, maybe)
	}
	if slices.Contains(containerTools, name) {
		l.docker(c, rest, maybe)
	}
	switch name {
	case "cd", "pushd":
		l.chdir(rest)
	case "unset":
		l.unset(c, rest)
	case "deepspeed", "accelerate":
		l.launcher(name, rest, maybe)
	case "conda", "mamba", "micromamba":
		l.conda(name, c, rest)
	case "source", ".", "eval":
		l.hook(rest)
	}
	l.detached(name, c, rest, maybe)
	if !slices.Contains(quietCommands, name) {
		l.devices(rest, maybe)
		l.ports(rest)
		l.script(args)
	}
}

// environment checks the NAME=value words of env, and variables removed by env -u.
func (l *linter) environment(c *syntax.CallExpr, wrapped int, maybe bool) {
	for i, w := range c.Args[:wrapped] {
		v := l.eval(w)
		if name, to, ok := v.cut(); ok && syntax.ValidName(name) {
			l.setting(name, to, maybe, w)
		}
		if v.prefix == "-u" && i+1 < wrapped {
			l.unset(c, []arg{{l.eval(c.Args[i+1]), c.Args[i+1]}})
		}
	}
}

// cut splits NAME=value.
func (v value) cut() (name string, rest value, ok bool) {
	name, _, ok = strings.Cut(v.prefix, "=")
	return name, v.from(len(name) + 1), ok
}

// from returns a value without its first n bytes. If they are not certain, the rest is not known.
func (v value) from(n int) value {
	if n > len(v.prefix) {
		return value{kind: v.kind, host: v.host}
	}
	out := value{kind: v.kind, prefix: v.prefix[n:], host: v.host}
	for _, t := range v.texts {
		out.texts = append(out.texts, t[n:])
	}
	return out
}

// An option is one option of a command.
type option struct {
	name  string
	value value
	at    syntax.Node // the option with its value
	rest  []arg       // the words after the option; empty if options finds the value in the option's own word
}

// options returns those options of a command that are in names and have a value.
func options(args []arg, names ...string) (found []option) {
	for i, a := range args {
		name, v, joined := a.cut()
		if !slices.Contains(names, name) {
			continue
		}
		if joined {
			found = append(found, option{name, v, a.word, nil})
		} else if o, ok := valued(name, args[i:]); ok {
			found = append(found, o)
		}
	}
	return found
}

// valued returns an option whose value is the next word, or false if there is no next word.
func valued(name string, args []arg) (option, bool) {
	if len(args) < 2 {
		return option{}, false
	}
	return option{name, args[1].value, span{args[0].word, args[1].word}, args[2:]}, true
}

// A span covers the text from one word to another.
type span struct{ from, to *syntax.Word }

func (s span) Pos() syntax.Pos { return s.from.Pos() }
func (s span) End() syntax.Pos { return s.to.End() }

func (l *linter) chdir(args []arg) {
	l.lost = true
	if len(args) > 0 {
		if dir, ok := args[0].one(); ok && dir != "-" {
			if l.lost = false; !path.IsAbs(dir) {
				dir = path.Join(l.dir, dir)
			}
			l.dir = dir
		}
	}
}

// nested checks the script of bash -c.
func (l *linter) nested(c *syntax.CallExpr, args []arg, maybe bool) {
	for i, a := range args {
		if len(a.prefix) < 2 || a.prefix[0] != '-' || a.prefix[1] == '-' || !strings.HasSuffix(a.prefix, "c") {
			continue
		}
		if i+1 == len(args) || l.depth > 2 {
			return
		}
		if script, ok := args[i+1].one(); ok {
			for _, f := range checkNested(script, l.job, l.depth+1).Findings {
				f.Warn, f.Line = f.Warn || maybe, f.Line+int(c.Pos().Line())-1
				l.report.Findings = append(l.report.Findings, f)
			}
		}
		return
	}
}

// script records the file that a command runs.
func (l *linter) script(args []arg) {
	if l.lost {
		return
	}
	name := path.Base(args[0].prefix)
	var found string
	switch {
	case slices.Contains(expand.Shells, name), name == "source", name == ".":
		found = firstFile(args[1:], "")
	case strings.HasPrefix(name, "python"), name == "torchrun", name == "deepspeed", name == "accelerate":
		found = firstFile(args[1:], ".py")
	case strings.HasSuffix(name, ".sh"), strings.HasSuffix(name, ".py"), strings.HasPrefix(args[0].prefix, "./"):
		found, _ = args[0].one()
	}
	if found == "" || strings.ContainsFunc(found, l.isPlaceholder) {
		return
	}
	if !path.IsAbs(found) {
		found = path.Join(l.dir, found)
	}
	if !slices.Contains(l.report.Scripts, found) {
		l.report.Scripts = append(l.report.Scripts, found)
	}
}

// firstFile returns the first word that is not an option and ends in ext.
func firstFile(args []arg, ext string) string {
	for _, a := range args {
		s, ok := a.one()
		switch {
		case s == "-m" && ext == ".py":
			return moduleScript(args)
		case !ok || s == "" || s == "-c":
			return ""
		case s[0] != '-' && strings.HasSuffix(s, ext):
			return s
		}
	}
	return ""
}

// moduleScript returns the script that follows python -m torch.distributed.run, or the module's own
// file.
func moduleScript(args []arg) (own string) {
	for i, a := range args {
		s, ok := a.one()
		if ok && strings.HasSuffix(s, ".py") {
			return s
		}
		if ok && own == "" && i > 0 && args[i-1].prefix == "-m" {
			own = strings.ReplaceAll(s, ".", "/") + ".py"
		}
	}
	return own
}
