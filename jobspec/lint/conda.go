package lint

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// conda warns about "conda activate" where conda's shell function is missing. Startup files define
// the function, but a job's shell does not read them.
func (l *linter) conda(name string, c *syntax.CallExpr, args []arg) {
	if len(args) == 0 || args[0].prefix != "activate" || l.hooked || l.job.Conda == "" || l.funcs[name] != nil {
		return
	}
	line := l.job.Conda
	if name == "micromamba" {
		line = `eval "$(micromamba shell hook -s bash)"`
	}
	l.find(Conda, true, c, l.short(c)+" fails in a job: job shells skip startup files, so there is no "+name+" function",
		"move it to setup, or add this line before it: "+line)
}

// hook records whether a command defines conda's function: source …/conda.sh, or
// eval "$(conda shell.bash hook)".
func (l *linter) hook(args []arg) {
	for _, a := range args {
		s := l.spelt(a.word)
		for _, sign := range []string{"conda", "mamba", "hook", "activate", "rc", "profile"} {
			l.hooked = l.hooked || strings.Contains(s, sign)
		}
	}
}
