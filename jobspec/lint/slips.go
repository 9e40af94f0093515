package lint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A slip is text that YAML or the shell silently reads differently from what the user meant: the
// job would run, perhaps for hours, and do something else. Slips may be intended, so they are
// warnings. Commands in quotes or under a "|" are not checked for joined lines, because the notation
// makes clear how their lines are joined.

var (
	// A lone backslash that is not at the end of its line.
	loneBackslash = regexp.MustCompile(`(?m)(?:^|[ \t])\\[ \t]+(?:\S|$)`)
	optionLine    = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_.-]*(?:[ =].*|)$`)
	// An option at the end of a command. If a comment follows, it was probably meant as the value.
	lacksValue = regexp.MustCompile(`(?:^|\s)--?[A-Za-z][A-Za-z0-9_-]*$`)
	// {{ seed }}, { seed }, ${{ matrix.seed }}, {matrix.seed}, {seed:4}, {seed!r}
	otherBraces = regexp.MustCompile(`\$?\{+\s*(?:[A-Za-z_]*\.)?([A-Za-z_][A-Za-z0-9_]*)\s*(?:[:!][^{}]*)?\}+`)
	// Programs whose arguments are never another command line.
	ownCommand  = regexp.MustCompile(`^(?:python[0-9.]*|pip[0-9.]*|echo|cd|mkdir|rm|cp|mv|wget|curl|unzip|tar|git)(?:\s|$)`)
	carriesOn   = regexp.MustCompile(`(?:\\|&&|\|\|?|;)\s*$`)
	otherSign   = regexp.MustCompile(`([\x{a0}\x{2002}-\x{200b}\x{202f}\x{3000}]|(?:^|\s)[–—―−－]+[A-Za-z]|(?:^|[\s=])[“”‘’])`)
	fromOutside = regexp.MustCompile(`\$(?:[A-Za-z_]|\{[A-Za-z_])|^~(?:/|$)`)
)

// CommandSlips checks the commands of run as written, in a job with the given parameters.
func CommandSlips(src *source.Source, n, env *yaml.Node, params []string) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for i, c := range nodes {
		if c.Kind != yaml.ScalarNode {
			continue
		}
		if i > 0 && optionLine.MatchString(strings.TrimSpace(c.Value)) {
			src.Warning(c.Line, c.Column, "append it to the previous command", "%q runs as a separate command", source.Clip(c.Value))
		}
		unfinishedLines(src, c)
		commentSlip(src, c)
		joinedLines(src, c)
		variableSlips(src, c, env, params)
		LookAlike(src, c.Value, c.Line, c.Column)
	}
}

// unfinishedLines warns about lines that were meant to continue but do not.
func unfinishedLines(src *source.Source, n *yaml.Node) {
	if strings.Contains(n.Value, `\`) && loneBackslash.MatchString(n.Value) {
		l, c := src.Find(n.Line, n.Column, `\`)
		hint := `end the line with \ and nothing after it, or write the command on one line`
		if n.Style&yaml.LiteralStyle == 0 {
			hint = `remove each \ (YAML joins the lines), or write run: |`
		}
		src.Warning(l, c, hint, `"\ " escapes a space: the command does not continue on the next line`)
		return
	}
	if !strings.Contains(n.Value, "\n") || strings.Contains(n.Value, "<<") || strings.Contains(n.Value, "=(") {
		return // text or a list that spans several lines
	}
	quote, before, comment := byte(0), "", false
	for i, line := range strings.Split(n.Value, "\n") {
		text := strings.TrimSpace(line)
		if i > 0 && quote == 0 && optionLine.MatchString(text) && (comment || !carriesOn.MatchString(before)) {
			hint := `end the previous line with a \`
			if n.Style&yaml.FoldedStyle != 0 {
				hint = `align it with the previous line: YAML joins only lines of equal indentation`
			} else if comment {
				hint = `remove the comment before it: a command does not continue after a comment`
			}
			l, c := src.Find(n.Line, n.Column, text)
			src.Warning(l, c, hint, "%q runs as a separate command", source.Clip(text))
			return
		}
		if text != "" {
			before = line
			comment, _ = outsideQuotes(line, quote)
		}
		quote = QuoteAfter(line, quote)
	}
}

// commentSlip warns about a value that became a comment: --tag #1.
func commentSlip(src *source.Source, n *yaml.Node) {
	if n.Style == 0 && n.LineComment != "" && (lacksValue.MatchString(n.Value) || len(n.LineComment) > 1 && n.LineComment[1] >= '0' && n.LineComment[1] <= '9') {
		comment, _, _ := strings.Cut(n.LineComment, "\n")
		l, c := src.Find(n.Line, n.Column, comment)
		src.Warning(l, c, "if it is part of the command, quote the whole command", "%q is a comment, not part of the command", source.Clip(comment))
	}
}

// joinedLines warns about two commands that YAML joined into one.
func joinedLines(src *source.Source, n *yaml.Node) {
	if n.Style&^yaml.FoldedStyle != 0 || !ownCommand.MatchString(n.Value) {
		return
	}
	at, before := n.Line, ""
	if n.Style == 0 {
		before = src.Line(at)
	}
	rest := n.Value
	for at++; ; at++ {
		text := strings.TrimSpace(src.Line(at))
		i := strings.Index(rest, text)
		if text == "" || i < 0 {
			return
		}
		joined := i > 0 && rest[i-1] == ' '
		if joined && ownCommand.MatchString(text) && !carriesOn.MatchString(before) {
			l, c := src.Find(at, 1, text)
			src.Warning(l, c, "for several commands, write run: |", "YAML joins the lines, so %q becomes arguments of the previous command", source.Clip(text))
			return
		}
		rest, before = rest[i+len(text):], text
	}
}

// LookAlike warns about characters that word processors and web pages substitute for spaces,
// hyphens and quotes. The shell treats them as letters.
func LookAlike(src *source.Source, command string, line, col int) {
	if strings.IndexFunc(command, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return // the common case, even among 100,000 commands
	}
	m := otherSign.FindStringSubmatchIndex(command)
	if m == nil || QuoteAfter(command[:m[2]], 0) != 0 {
		return
	}
	sign := strings.TrimLeft(command[m[2]:m[3]], "= \t\n")
	l, c := src.Find(line, col, sign)
	src.Warning(l, c, "retype it", "%+q looks like a space, hyphen or quote, but the shell treats it as a letter", string([]rune(sign)[:1]))
}

// variableSlips warns about parameters written in the notation of other tools.
func variableSlips(src *source.Source, n, env *yaml.Node, known []string) {
	if len(known) == 0 {
		return
	}
	for _, m := range otherBraces.FindAllStringSubmatch(n.Value, -1) {
		spelt, name := m[0], m[1]
		if !slices.Contains(known, name) || strings.HasPrefix(spelt, "${") && spelt[2] != '{' || expand.Variable.MatchString(spelt) || strings.HasPrefix(spelt, "{{"+name) {
			continue
		}
		l, c := src.Find(n.Line, n.Column, spelt)
		src.Warning(l, c, "to use the parameter, write {"+name+"}", "%s is not a variable and is kept as is", spelt)
	}
	for _, name := range known {
		if at := shellVariable(n.Value, name); at != "" && source.Child(env, name) == nil {
			l, c := src.Find(n.Line, n.Column, at)
			src.Warning(l, c, "to use the parameter, write {"+name+"}, or $"+expand.ParamEnv(name), "nothing sets the shell variable %s", at)
		}
	}
}

// shellVariable returns $NAME or ${NAME} if the shell would replace it with an empty string.
func shellVariable(script, name string) string {
	if !strings.Contains(script, "$"+name) && !strings.Contains(script, "${"+name) {
		return ""
	}
	use := regexp.MustCompile(`\$(?:` + name + `\b|\{` + name + `\})`)
	set := regexp.MustCompile(`\b` + name + `(?:\+?=|\[)|\b(?:for|select|read|local|declare|getopts|mapfile)\b[^;\n]*\b` + name + `\b`)
	at := use.FindStringIndex(script)
	if at == nil || set.MatchString(script) {
		return ""
	}
	if _, ok := os.LookupEnv(name); ok || at[0] > 0 && script[at[0]-1] == '\\' || QuoteAfter(script[:at[0]], 0) == '\'' {
		return ""
	}
	return script[at[0]:at[1]]
}

// LiteralSlip warns about $HOME in a value that no shell expands.
func LiteralSlip(src *source.Source, v *yaml.Node, what string) {
	if v.Kind == yaml.ScalarNode && fromOutside.MatchString(v.Value) {
		src.Warning(v.Line, v.Column, "write the full value, or move it to run, where the shell expands it", "%s: %q is passed as is: $ and ~ are not expanded here", what, source.Clip(v.Value))
	}
}

// SwitchSlip warns about yes and no, which are text: --amp no.
func SwitchSlip(src *source.Source, k, v *yaml.Node, what string) {
	switch strings.ToLower(v.Value) {
	case "yes", "no", "on", "off":
		if v.Style == 0 {
			src.Warning(v.Line, v.Column, "to pass or omit --"+k.Value+", write true or false; for the text, quote it", "%s: %s is text, so the command gets --%s %s", what, v.Value, k.Value, v.Value)
		}
	}
}

// ListSlip warns about a list without brackets.
func ListSlip(src *source.Source, key string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && strings.Contains(n.Value, ", ") {
		src.Warning(n.Line, n.Column, "a list needs brackets: ["+n.Value+"]; for a single entry, quote it", "%s: %q is a single entry", key, source.Clip(n.Value))
	}
}
