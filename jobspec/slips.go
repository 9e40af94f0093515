package jobspec

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// What YAML and the shell take otherwise than it was meant, and without a word:
// each would run, some for hours, and do something else. All of it may be meant,
// so these are warnings; a command in quotes or below a "|" is never in doubt of
// how its lines are joined.

var (
	// A backslash that stands alone and is not the end of its line.
	loneBackslash = regexp.MustCompile(`(?m)(?:^|[ \t])\\[ \t]+(?:\S|$)`)
	optionLine    = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_.-]*(?:[ =].*|)$`)
	// Options at the end of a command, the comment behind which was to be the value.
	lacksValue = regexp.MustCompile(`(?:^|\s)--?[A-Za-z][A-Za-z0-9_-]*$`)
	// {{ seed }}, { seed }, ${{ matrix.seed }}, {matrix.seed}, {seed:4}, {seed!r}
	otherBraces = regexp.MustCompile(`\$?\{+\s*(?:[A-Za-z_]*\.)?([A-Za-z_][A-Za-z0-9_]*)\s*(?:[:!][^{}]*)?\}+`)
	// Programs that take no other program's call for their arguments.
	ownCommand  = regexp.MustCompile(`^(?:python[0-9.]*|pip[0-9.]*|echo|cd|mkdir|rm|cp|mv|wget|curl|unzip|tar|git)(?:\s|$)`)
	carriesOn   = regexp.MustCompile(`(?:\\|&&|\|\|?|;)\s*$`)
	otherSign   = regexp.MustCompile(`([\x{a0}\x{2002}-\x{200b}\x{202f}\x{3000}]|(?:^|\s)[–—―−－]+[A-Za-z]|(?:^|[\s=])[“”‘’])`)
	rangeCall   = regexp.MustCompile(`^(?:np\.)?(?:range|arange|linspace)\(.*\)$`)
	fromOutside = regexp.MustCompile(`\$(?:[A-Za-z_]|\{[A-Za-z_])|^~(?:/|$)`)
)

// commandSlips looks at the commands of run as the file has them.
func (p *proto) commandSlips(n, env *yaml.Node) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for i, c := range nodes {
		if c.Kind != yaml.ScalarNode {
			continue
		}
		if i > 0 && optionLine.MatchString(strings.TrimSpace(c.Value)) {
			p.src.warning(c.Line, c.Column, "put it behind the command that it belongs to", "%q is run as a command of its own", clip(c.Value))
		}
		p.lineSlips(c)
		p.commentSlip(c)
		p.joinedLines(c)
		p.variableSlips(c, env)
		p.lookAlike(c.Value, c.Line, c.Column)
	}
}

// lineSlips warns of lines that were to go on and do not.
func (p *proto) lineSlips(n *yaml.Node) {
	if loneBackslash.MatchString(n.Value) {
		l, c := p.src.find(n.Line, n.Column, `\`)
		hint := `put nothing behind the \ of a line, or write the command on one line`
		if n.Style&yaml.LiteralStyle == 0 {
			hint = `YAML joins these lines by itself: take each \ out, or write run: |`
		}
		p.src.warning(l, c, hint, `"\ " makes the next word begin with a space: no line ends there`)
		return
	}
	if !strings.Contains(n.Value, "\n") || strings.Contains(n.Value, "<<") || strings.Contains(n.Value, "=(") {
		return // a text or an array over several lines
	}
	quote, before := byte(0), ""
	for i, line := range strings.Split(n.Value, "\n") {
		text := strings.TrimSpace(line)
		if i > 0 && quote == 0 && optionLine.MatchString(text) && !carriesOn.MatchString(before) {
			hint := `end the line before it with a \`
			if n.Style&yaml.FoldedStyle != 0 {
				hint = `YAML joins only lines with one indentation: begin it in the column of the line before`
			}
			l, c := p.src.find(n.Line, n.Column, text)
			p.src.warning(l, c, hint, "%q is run as a command of its own", clip(text))
			return
		}
		quote = quoteAfter(line, quote)
		if text != "" {
			before = line
		}
	}
}

// commentSlip warns of a value that has become a comment: --tag #1.
func (p *proto) commentSlip(n *yaml.Node) {
	if n.Style == 0 && n.LineComment != "" && (lacksValue.MatchString(n.Value) || len(n.LineComment) > 1 && n.LineComment[1] >= '0' && n.LineComment[1] <= '9') {
		comment, _, _ := strings.Cut(n.LineComment, "\n")
		l, c := p.src.find(n.Line, n.Column, comment)
		p.src.warning(l, c, "if it belongs to the command, put quotes around the whole command", "%q is a comment, and no part of the command", clip(comment))
	}
}

// joinedLines warns of two commands that YAML has made one of.
func (p *proto) joinedLines(n *yaml.Node) {
	if n.Style&^yaml.FoldedStyle != 0 || !ownCommand.MatchString(n.Value) {
		return
	}
	at, before := n.Line, ""
	if n.Style == 0 {
		before = p.src.line(at)
	}
	rest := n.Value
	for at++; ; at++ {
		text := strings.TrimSpace(p.src.line(at))
		i := strings.Index(rest, text)
		if text == "" || i < 0 {
			return
		}
		joined := i > 0 && rest[i-1] == ' '
		if joined && ownCommand.MatchString(text) && !carriesOn.MatchString(before) {
			l, c := p.src.find(at, 1, text)
			p.src.warning(l, c, "for several commands write run: |", "YAML joins the lines: %q is no command of its own, but arguments of the one before", clip(text))
			return
		}
		rest, before = rest[i+len(text):], text
	}
}

// lookAlike warns of what word processors and web pages make of a space, a hyphen
// or a quote. The shell takes it for a letter.
func (p *proto) lookAlike(command string, line, col int) {
	m := otherSign.FindStringSubmatchIndex(command)
	if m == nil || quoteAfter(command[:m[2]], 0) != 0 {
		return
	}
	sign := strings.TrimLeft(command[m[2]:m[3]], "= \t\n")
	l, c := p.src.find(line, col, sign)
	p.src.warning(l, c, "type it anew", "%+q looks like a space, a hyphen or a quote, and is a letter to the shell", firstRune(sign))
}

// variableSlips warns of parameters in the spelling of other tools.
func (p *proto) variableSlips(n, env *yaml.Node) {
	known := slices.Concat(p.scope.params, p.scope.partial)
	if len(known) == 0 {
		return
	}
	for _, m := range otherBraces.FindAllStringSubmatch(n.Value, -1) {
		spelt, name := m[0], m[1]
		if !slices.Contains(known, name) || strings.HasPrefix(spelt, "${") && spelt[2] != '{' || variable.MatchString(spelt) || strings.HasPrefix(spelt, "{{"+name) {
			continue
		}
		l, c := p.src.find(n.Line, n.Column, spelt)
		p.src.warning(l, c, "for the parameter write {"+name+"}", "%s is left as it is", spelt)
	}
	for _, name := range known {
		if at := shellVariable(n.Value, name); at != "" && child(env, name) == nil {
			l, c := p.src.find(n.Line, n.Column, at)
			p.src.warning(l, c, "for the parameter write {"+name+"}, or $"+paramEnv(name), "%s is a variable of the shell, and nothing here sets it", at)
		}
	}
}

// shellVariable is $NAME or ${NAME} where the shell would put nothing in.
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
	if _, ok := os.LookupEnv(name); ok || at[0] > 0 && script[at[0]-1] == '\\' || quoteAfter(script[:at[0]], 0) == '\'' {
		return ""
	}
	return script[at[0]:at[1]]
}

// literalSlip warns of what no shell sees that would put $HOME in.
func (p *proto) literalSlip(v *yaml.Node, what string) {
	if v.Kind == yaml.ScalarNode && fromOutside.MatchString(v.Value) {
		p.src.warning(v.Line, v.Column, "write it out, or put it into run, where the shell sees it", "%s: %q arrives as it stands: nothing is put in for $ or ~ there", what, clip(v.Value))
	}
}

// switchSlip warns of yes and no, which are texts: --amp no.
func (p *proto) switchSlip(k, v *yaml.Node, what string) {
	switch strings.ToLower(v.Value) {
	case "yes", "no", "on", "off":
		if v.Style == 0 {
			p.src.warning(v.Line, v.Column, "for --"+k.Value+" or nothing write true or false; for the text, quote it", "%s: %s is a text, and gives --%s %s", what, v.Value, k.Value, v.Value)
		}
	}
}

// valueSlips warns of values that look like a list or a range, and are one value.
func (r *matrixReader) valueSlips(name string, list *yaml.Node) {
	among := amongNumbers(list)
	for _, v := range list.Content {
		if v.Kind != yaml.ScalarNode || v.Style != 0 || isNumber(v.Value) || isRange(v, false) {
			continue
		}
		words := strings.FieldsFunc(v.Value, func(r rune) bool { return strings.ContainsRune(" \t;，、；", r) })
		switch {
		case len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return !isNumber(w) }):
			r.warning(v.Line, v.Column, "put commas between them: "+strings.Join(words, ", ")+"; if it is one value, quote it", "%q is one value of parameter %q", clip(v.Value), name)
		case rangeCall.MatchString(v.Value), among && nearlyRange(v.Value):
			r.warning(v.Line, v.Column, "a range is written 0..9, or 0..1..0.1 with a step; if it is one value, quote it", "%q is one value of parameter %q", clip(v.Value), name)
		}
	}
}

// nearlyRange knows 1-5, 1 - 5, 0...9, and 1e-5..1e-3.
func nearlyRange(s string) bool {
	for _, sign := range []string{"...", "..", "-"} {
		if from, to, ok := strings.Cut(s, sign); ok {
			a, errA := strconv.ParseFloat(strings.TrimSpace(from), 64)
			b, errB := strconv.ParseFloat(strings.TrimSpace(to), 64)
			return errA == nil && errB == nil && a < b
		}
	}
	return false
}

// oneValueSlip warns of a range where one value belongs.
func (r *matrixReader) oneValueSlip(name string, v *yaml.Node) {
	if isRange(v, false) {
		r.warning(v.Line, v.Column, "for all of it, write it under matrix; if it is one value, quote it", "%q is one value of parameter %q, and no range here", v.Value, name)
	}
}

// amongNumbers says whether a list has one value, or numbers too: groups of ages
// are 0-9, 10-19 and so on, and no ranges.
func amongNumbers(list *yaml.Node) bool {
	return len(list.Content) == 1 || slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return isNumber(n.Value) })
}

// listSlip warns of a list without its brackets.
func (p *proto) listSlip(key string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && strings.Contains(n.Value, ", ") {
		p.src.warning(n.Line, n.Column, "a list stands in brackets: ["+n.Value+"]; if it is one, quote it", "%s: %q is one entry", key, clip(n.Value))
	}
}

// homeSlip warns of a bare ~, which YAML takes for nothing.
func (s *source) homeSlip(key string, n *yaml.Node) {
	if key == "work_dir" && isNull(n) && n.Value == "~" {
		s.warning(n.Line, n.Column, `for the home folder write "~", in quotes`, "work_dir: ~ is YAML's word for nothing")
	}
}
