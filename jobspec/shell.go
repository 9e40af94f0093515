package jobspec

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/source"

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
func (p *proto) readShell(n *yaml.Node) {
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

// closesBlock matches a line that closes something and takes no arguments.
var closesBlock = regexp.MustCompile(`^(?:done|fi|esac|wait|exit|\}|\))(?:\s|$)`)

// argsPlace checks where args would land: after the last line of the last command.
// In a comment they would be lost, and the job would run without them; after some
// other command, that one would get them.
func (p *proto) argsPlace() {
	if len(p.Args) == 0 || len(p.Commands) == 0 {
		return
	}
	t := &p.Commands[len(p.Commands)-1]
	script := strings.TrimRight(t.Raw, "\n")
	from := strings.LastIndexByte(script, '\n') + 1
	last := script[from:]
	quote := quoteAfter(script[:from], 0)
	comment, sign := outsideQuotes(last, quote)
	text := strings.TrimSpace(last)
	line, col := p.src.Find(t.Line, t.Col, text)
	switch {
	case comment:
		p.src.Problem(line, col, "end the script with the command they belong to", "args would land in the comment of %q and have no effect", source.Clip(text))
	case p.style == experiment: // its program is in the settings, once for all jobs
	case sign || quote == 0 && closesBlock.MatchString(text):
		p.src.Warning(line, col, "end the script with the command they belong to, or write them into it", "args go after %q as a whole: only its last command gets them", source.Clip(text))
	}
}

// outsideQuotes reports whether a line of a script ends in a comment, and whether it
// holds more than one command. quote is the quote left open by earlier lines, or 0.
func outsideQuotes(line string, quote byte) (comment, several bool) {
	for i := 0; i < len(line); i++ {
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = line[i-1]
		}
		if i+1 < len(line) {
			after = line[i+1]
		}
		switch c := line[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case quote != 0:
		case c == '#' && strings.IndexByte(" \t;&|(", before) >= 0:
			return true, several
		case c == ';', c == '|' && before != '>', c == '&' && strings.IndexByte("<>", before) < 0 && after != '>':
			several = true
		}
	}
	return false, several
}
