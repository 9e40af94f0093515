package jobspec

import (
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// shells are programs that take a command after an option; without the option they take
// it for a script's name. People name them alone, as in GitHub Actions, and it is clear
// what they mean.
var shells = map[string][]string{
	"bash": {"bash", "-e", "-o", "pipefail", "-c"}, "sh": {"sh", "-e", "-c"}, "dash": {"dash", "-e", "-c"},
	"zsh": {"zsh", "-e", "-o", "pipefail", "-c"}, "ksh": {"ksh", "-e", "-o", "pipefail", "-c"}, "fish": {"fish", "-c"},
}

// readShell reads argv as a list or as a text of words. A shell's name alone stands for
// its argv.
func (p *proto) readShell() {
	n := p.get("shell")
	if n == nil {
		return
	}
	items := p.src.Items(n, "shell")
	for _, item := range items {
		word, _, ok := p.src.Scalar(item, "shell")
		if ok && n.Kind == yaml.ScalarNode {
			p.Shell = strings.Fields(word)
		} else if ok {
			p.Shell = append(p.Shell, word)
		}
	}
	switch {
	case len(items) == 0:
	case len(p.Shell) == 0 || p.Shell[0] == "":
		p.src.Problem(n.Line, n.Column, "try [bash, -c]", "shell names no program")
	case len(p.Shell) == 1 && n.Kind == yaml.ScalarNode && shells[p.Shell[0]] != nil:
		p.Shell = shells[p.Shell[0]]
	case takesFile(p.Shell):
		p.src.Problem(n.Line, n.Column, "write ["+strings.Join(append(slices.Clone(p.Shell), "-c"), ", ")+"]",
			"shell: %s would treat each command as the name of a script", strings.Join(p.Shell, " "))
	}
}

// takesFile reports whether a shell would treat its next argument as a script's name,
// because none of its options ends in c.
func takesFile(argv []string) bool {
	if shells[filepath.Base(argv[0])] == nil {
		return false
	}
	return !slices.ContainsFunc(argv[1:], func(a string) bool {
		return a == "--command" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	})
}
