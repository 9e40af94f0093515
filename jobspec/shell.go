package jobspec

import (
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// shells are programs that take a command behind an option, and with nothing but a
// command take it for the name of a script. For those that people name alone, as in
// GitHub Actions, it is known what is meant.
var shells = map[string][]string{
	"bash": {"bash", "-e", "-o", "pipefail", "-c"}, "sh": {"sh", "-e", "-c"}, "dash": {"dash", "-e", "-c"},
	"zsh": {"zsh", "-e", "-o", "pipefail", "-c"}, "ksh": {"ksh", "-e", "-o", "pipefail", "-c"}, "fish": {"fish", "-c"},
}

// readShell takes argv, or a text of words. A shell's name alone is its argv.
func (p *proto) readShell(n *yaml.Node) {
	if n == nil {
		return
	}
	items := p.src.items(n, "shell")
	for _, item := range items {
		word, _, ok := p.src.scalar(item, "shell")
		if ok && n.Kind == yaml.ScalarNode {
			p.shell = strings.Fields(word)
		} else if ok {
			p.shell = append(p.shell, word)
		}
	}
	switch {
	case len(items) == 0:
	case len(p.shell) == 0 || p.shell[0] == "":
		p.src.problem(n.Line, n.Column, "say [bash, -c]", "shell names no program")
	case len(p.shell) == 1 && n.Kind == yaml.ScalarNode && shells[p.shell[0]] != nil:
		p.shell = shells[p.shell[0]]
	case takesFile(p.shell):
		p.src.problem(n.Line, n.Column, "write ["+strings.Join(append(slices.Clone(p.shell), "-c"), ", ")+"]",
			"shell: %s would take each command for the name of a script", strings.Join(p.shell, " "))
	}
}

// takesFile reports whether a shell would read its next argument as a script's name:
// no option of it ends in c.
func takesFile(argv []string) bool {
	if shells[filepath.Base(argv[0])] == nil {
		return false
	}
	return !slices.ContainsFunc(argv[1:], func(a string) bool {
		return a == "--command" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	})
}
