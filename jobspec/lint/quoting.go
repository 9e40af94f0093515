package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"al.essio.dev/pkg/shellescape"
	"mvdan.cc/sh/v3/syntax"

	"gpurun/jobspec/source"
	"gpurun/state/redact"
)

// unsafe matches what the shell would split or interpret in a value. Its keys are the quote
// characters around the value, or 0 for none. It does not match $NAME, because a value such as
// $HOME/data is meant to be expanded.
var unsafe = map[byte]*regexp.Regexp{
	0:    regexp.MustCompile(`[\s|&;<>()"'` + "`" + `\\*?\[]|^#|\$[(0-9]`),
	'"':  regexp.MustCompile(`["` + "`" + `\\]|\$[(0-9]`),
	'\'': regexp.MustCompile(`'`),
}

// optionLike matches values that are options. Such a value may be several words on purpose.
var optionLike = regexp.MustCompile(`^--?[A-Za-z]`)

// arguments warns about values that the shell would split or interpret. It skips a program that is a
// placeholder, because its value may intentionally be several words.
func (l *linter) arguments(c *syntax.CallExpr, args []arg) {
	for i, w := range c.Args {
		if i == len(c.Args)-len(args) && strings.ContainsFunc(w.Lit(), l.isPlaceholder) {
			continue
		}
		if i > 0 && len(args) > 0 && slices.Contains([]string{"eval", "bash", "sh"}, args[0].prefix) {
			return
		}
		l.quoting(w)
		if i > 0 {
			l.lostValue(c.Args[i-1], w)
		}
	}
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
		h := l.placeholder(r)
		if h != nil && h.Twice != "" && (quote == '\'' || quote == '"' && s == string(r)) {
			l.findAt(string(quote)+h.Spelt, int(at.Pos().Line()), Unquoted, true, quotedTwice(h), "remove the quotes around it")
		}
		if h == nil || h.Quoted {
			continue
		}
		for _, v := range h.Values {
			if unsafe[quote].MatchString(v) && !(quote == 0 && optionLike.MatchString(v)) {
				fix := "; for several arguments, set allow: [unquoted]"
				if quote != 0 {
					fix = ", without quotes around it"
				}
				l.unquoted(at, h, fix, "the shell splits or expands a value of %s: %q", h.Spelt, h.shown(v))
				break
			}
		}
	}
}

// shown returns a parameter's value for a message, which other users may see.
func shown(name, value string) string { return source.Clip(redact.Value(name, value)) }

// shown returns a value of the placeholder's parameter for a message.
func (h *placeholder) shown(value string) string {
	name, _, _ := strings.Cut(strings.Trim(h.Spelt, "{}"), ":")
	return shown(name, value)
}

// lostValue warns about an option whose value is empty, so that the shell does not pass it. If
// another value of the parameter is itself an option, the empty value is intended.
func (l *linter) lostValue(option, w *syntax.Word) {
	name := option.Lit()
	r, _ := utf8.DecodeRuneInString(w.Lit())
	h := l.placeholder(r)
	if h == nil || h.Quoted || !optionLike.MatchString(name) || strings.Contains(name, "=") || w.Lit() != string(r) ||
		!slices.Contains(h.Values, "") || slices.ContainsFunc(h.Values, optionLike.MatchString) {
		return
	}
	l.unquoted(w, h, " for an empty argument", "an empty value of %s leaves %s without a value", h.Spelt, name)
}

// unquoted reports a placeholder that should be written {x:q}.
func (l *linter) unquoted(at syntax.Node, h *placeholder, fix, format string, args ...any) {
	hint := "use {" + strings.Trim(h.Spelt, "{}") + ":q}" + fix
	l.findAt(h.Spelt, int(at.Pos().Line()), Unquoted, true, fmt.Sprintf(format, args...), hint)
}

// quotedTwice returns the message that the program gets the quotes of {x:q}.
func quotedTwice(h *placeholder) string {
	return fmt.Sprintf("%s is quoted twice, so the program gets the quotes, too: %s", h.Spelt, h.shown(shellescape.Quote(h.Twice)))
}
