package script

import (
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"gpurun/jobspec/source"
)

// What the shell splits or interprets in a value, by the quotes around it. A value such as
// $HOME/data is meant to be expanded by the shell.
var unsafe = map[byte]*regexp.Regexp{
	0:    regexp.MustCompile(`[\s|&;<>()"'` + "`" + `\\*?\[]|^#|\$\(`),
	'"':  regexp.MustCompile(`["` + "`" + `\\]|\$\(`),
	'\'': regexp.MustCompile(`'`),
}

// arguments warns about values that the shell would split or interpret. The first word is
// a command, which may well be more than one word.
func (l *linter) arguments(c *syntax.CallExpr, args []arg) {
	for i, w := range c.Args {
		if i == len(c.Args)-len(args) && strings.ContainsFunc(w.Lit(), l.isHole) {
			continue
		}
		if i > 0 && (args0(args) == "eval" || args0(args) == "bash" || args0(args) == "sh") {
			return
		}
		l.quoting(w)
	}
}

func args0(args []arg) string {
	if len(args) == 0 {
		return ""
	}
	return args[0].prefix
}

func (l *linter) quoting(w *syntax.Word) {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			l.quoted(p, p.Value, 0)
		case *syntax.SglQuoted:
			l.quoted(p, p.Value, '\'')
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				if lit, ok := inner.(*syntax.Lit); ok {
					l.quoted(lit, lit.Value, '"')
				}
			}
		}
	}
}

func (l *linter) quoted(at syntax.Node, s string, quote byte) {
	for _, r := range s {
		h := l.hole(r)
		if h == nil || h.Quoted {
			continue
		}
		for _, v := range h.Values {
			if unsafe[quote].MatchString(v) && !(quote == 0 && meantApart(v)) {
				l.unquoted(at, h, v, quote)
				break
			}
		}
	}
}

// meantApart recognizes values that are several words on purpose: options, numbers.
func meantApart(v string) bool {
	return strings.HasPrefix(v, "-") || strings.TrimSpace(v) != "" && strings.Trim(v, "0123456789., \t") == ""
}

func (l *linter) unquoted(at syntax.Node, h *Hole, v string, quote byte) {
	name := strings.Trim(h.Spelt, "{}")
	hint := fmt.Sprintf("use {%s:q}", name)
	if quote != 0 {
		hint = fmt.Sprintf("use {%s:q}, without quotes around it", name)
	}
	l.report.Findings = append(l.report.Findings, Finding{Lint: Unquoted, Warn: true, At: h.Spelt, Line: int(at.Pos().Line()),
		Text: fmt.Sprintf("a value of %s is not one word to the shell: %q", h.Spelt, source.Clip(v)), Hint: hint})
}
