package expand

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/source"
)

const variable = `\{([A-Za-z_][A-Za-z0-9_]*)(?::(q|0?[0-9]{0,2}(?:\.[0-9]{1,2})?[dfeEgGxX]))?\}`

var (
	// Variable matches a {variable} at the beginning of a text.
	Variable = regexp.MustCompile(`^` + variable)
	// braced matches text that the shell or another tool expands, {{literal}}, and {variable}.
	braced = regexp.MustCompile(`\$\{\{[^{}]*\}\}|\$\{|\{` + variable + `\}|` + variable)
)

// A Scope is the set of variables that a text may use.
type Scope struct {
	Params  []string // in the order jobs have them
	Partial []string // parameters that only some expansions have
	Known   VarSet
	Where   string // part of the job, for messages: "outputs"
}

// A wordError explains why a {word} is refused.
type wordError struct{ spelt, text, hint string }

// words calls f for each {word} in s that is not shell syntax, with the word's position and meaning.
// A word in s may be escaped: {{word}}.
func (sc *Scope) words(s string, f func(from, to int, word string, escaped bool, seg *Segment, e *wordError)) {
	if !strings.Contains(s, "{") {
		return // the common case, even among 100,000 commands
	}
	for _, at := range braced.FindAllStringIndex(s, -1) {
		word, escaped := strings.CutPrefix(s[at[0]:at[1]], "{{")
		if escaped {
			word = "{" + strings.TrimSuffix(word, "}")
		}
		if word[0] != '$' {
			seg, e := sc.word(word)
			f(at[0], at[1], word, escaped, seg, e)
		}
	}
}

// parse parses s. left holds words that look like variables but are not; bad holds refused words.
func (sc *Scope) parse(s string) (t *Text, left []string, bad []*wordError) {
	t = &Text{Raw: s}
	from := 0
	literal := func(text string) {
		if n := len(t.Segs); n > 0 && t.Segs[n-1].Kind == VarLiteral {
			t.Segs[n-1].Lit += text
		} else if text != "" {
			t.Segs = append(t.Segs, Segment{Kind: VarLiteral, Lit: text})
		}
	}
	sc.words(s, func(at, end int, word string, escaped bool, seg *Segment, e *wordError) {
		switch {
		case escaped && (seg != nil || e != nil):
			literal(s[from:at] + word)
			from = end
		case escaped:
		case e != nil:
			bad = append(bad, e)
		case seg != nil:
			literal(s[from:at])
			t.Segs = append(t.Segs, *seg)
			from = end
		default:
			left = append(left, word)
		}
	})
	literal(s[from:])
	return t, left, bad
}

// Escape returns text that renders as s in a job with these parameters. It doubles the braces of
// words that would be variables, or would be refused as such.
func Escape(s string, params ...string) string {
	sc := &Scope{Params: params, Known: AtStart, Where: "run"}
	var out strings.Builder
	from := 0
	sc.words(s, func(at, end int, _ string, _ bool, seg *Segment, e *wordError) {
		if seg != nil || e != nil {
			out.WriteString(s[from:at] + "{" + s[at:end] + "}")
			from = end
		}
	})
	return out.String() + s[from:]
}

// word parses one {word}: it returns a segment, a refusal, or neither.
func (sc *Scope) word(spelt string) (*Segment, *wordError) {
	m := Variable.FindStringSubmatch(spelt)
	name, format := m[1], m[2]
	if slices.Contains(sc.Params, name) {
		return &Segment{Kind: VarParam, Format: format, Lit: spelt, Param: name}, nil
	}
	if slices.Contains(sc.Partial, name) {
		return nil, &wordError{spelt, fmt.Sprintf("only some jobs of the matrix have a value for %s, set by include entries", spelt),
			fmt.Sprintf("to set it for all jobs, add an include entry with only %s", name)}
	}
	if k := builtin(name); k != VarLiteral {
		switch {
		case !sc.Known.Has(k):
			return nil, &wordError{spelt, fmt.Sprintf("%s is not available in %s", spelt, sc.Where), "for literal text, write {" + spelt + "}"}
		case format != "" && format != "q" && !k.Numeric():
			return nil, &wordError{spelt, fmt.Sprintf("%s formats a number, but {%s} is not a number", spelt, name), "remove the format"}
		}
		return &Segment{Kind: k, Format: format, Lit: spelt}, nil
	}
	if near := sc.near(name); near != "" {
		return nil, &wordError{spelt, fmt.Sprintf("unknown variable %s", spelt),
			fmt.Sprintf("did you mean {%s}? for literal text, write {%s}", near, spelt)}
	}
	return nil, nil
}

// near returns the known variable that word is probably a typo of, or "".
func (sc *Scope) near(word string) string {
	for _, p := range slices.Concat(sc.Params, sc.Partial) {
		d := len(word) - len(p)
		if len(word) >= 3 && (d == 1 || d == -1) && source.Distance(word, p) == 1 {
			return p
		}
	}
	if len(word) < 5 {
		return ""
	}
	for _, k := range slices.Concat(sc.Params, builtins) {
		if source.Distance(word, k) <= 1 {
			return k
		}
	}
	return ""
}

// Compile parses text from a file. It reports unknown and forbidden variables, and warns about
// words that look like variables but are not.
func (sc *Scope) Compile(s *source.Source, raw string, line, col int) (*Text, bool) {
	t, left, bad := sc.parse(raw)
	t.Line, t.Col = line, col
	for _, e := range bad {
		l, c := s.Find(line, col, e.spelt)
		s.Problem(l, c, e.hint, "%s", e.text)
	}
	for _, word := range left {
		l, c := s.Find(line, col, word)
		s.Warning(l, c, "", "%s in %s is not a variable and is kept as is", word, sc.Where)
	}
	return t, len(bad) == 0
}
