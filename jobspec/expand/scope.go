package expand

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"gpurun/jobspec/source"
)

var (
	Variable     = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*)(?::(q|0?[0-9]{0,2}(?:\.[0-9]{1,2})?[dfeEgGxX]))?\}`)
	numberFormat = regexp.MustCompile(`^(0?)([0-9]{0,2})(\.[0-9]{1,2})?([dfeEgGxX])$`)
)

// A Scope is what a text may refer to.
type Scope struct {
	Params  []string // in the order jobs have them
	Partial []string // parameters that only some expansions have
	Known   VarSet
	Where   string // "outputs", for messages
}

// wordError is a {word} that is refused.
type wordError struct{ spelt, text, hint string }

// parse parses s. Words that look like variables but are not are returned in left,
// those that must be refused in bad.
func (sc *Scope) parse(s string) (t Text, left []string, bad []*wordError) {
	t.Raw = s
	from := 0
	add := func(upTo int, seg Segment, next int) {
		if upTo > from {
			t.Segs = append(t.Segs, Segment{Kind: VarLiteral, Lit: s[from:upTo]})
		}
		t.Segs = append(t.Segs, seg)
		from = next
	}
	for i := 0; i < len(s); {
		if s[i] != '{' {
			i++
			continue
		}
		if i > 0 && s[i-1] == '$' {
			i = skipShell(s, i)
			continue
		}
		if i+1 < len(s) && s[i+1] == '{' {
			if m := Variable.FindString(s[i+1:]); m != "" && strings.HasPrefix(s[i+1+len(m):], "}") {
				next := i + len(m) + 2
				if seg, e := sc.word(m); seg != nil || e != nil {
					add(i, Segment{Kind: VarLiteral, Lit: m}, next)
				}
				i = next
				continue
			}
			i++
			continue
		}
		m := Variable.FindString(s[i:])
		if m == "" {
			i++
			continue
		}
		seg, e := sc.word(m)
		switch {
		case e != nil:
			bad = append(bad, e)
		case seg != nil:
			add(i, *seg, i+len(m))
		default:
			left = append(left, m)
		}
		i += len(m)
	}
	if from < len(s) {
		t.Segs = append(t.Segs, Segment{Kind: VarLiteral, Lit: s[from:]})
	}
	t.Segs = joinLiterals(t.Segs)
	return t, left, bad
}

// skipShell skips ${, and ${{ … }} as a whole.
func skipShell(s string, i int) int {
	if strings.HasPrefix(s[i:], "{{") {
		if end := strings.Index(s[i:], "}}"); end >= 0 {
			return i + end + 2
		}
	}
	return i + 1
}

func joinLiterals(segs []Segment) []Segment {
	out := segs[:0]
	for _, g := range segs {
		if n := len(out); n > 0 && g.Kind == VarLiteral && out[n-1].Kind == VarLiteral {
			out[n-1].Lit += g.Lit
			continue
		}
		out = append(out, g)
	}
	return out
}

// word parses one {word}: it returns a segment, a refusal, or neither.
func (sc *Scope) word(spelt string) (*Segment, *wordError) {
	m := Variable.FindStringSubmatch(spelt)
	name, format := m[1], m[2]
	if i := slices.Index(sc.Params, name); i >= 0 {
		return &Segment{Kind: VarParam, Format: format, Lit: spelt, Param: name, index: i}, nil
	}
	if slices.Contains(sc.Partial, name) {
		return nil, &wordError{spelt, fmt.Sprintf("not every job of the matrix has a value for %s: only some include entries set it", spelt),
			fmt.Sprintf("an include entry with only %s sets it for all", name)}
	}
	if k := builtin(name); k != VarLiteral {
		switch {
		case !sc.Known.Has(k):
			return nil, &wordError{spelt, fmt.Sprintf("%s is not available in %s", spelt, sc.Where), "for the literal text write {" + spelt + "}"}
		case format != "" && format != "q" && !k.Numeric():
			return nil, &wordError{spelt, fmt.Sprintf("%s: {%s} is not a number", spelt, name), "remove the format"}
		}
		return &Segment{Kind: k, Format: format, Lit: spelt}, nil
	}
	if near := sc.near(name); near != "" {
		return nil, &wordError{spelt, fmt.Sprintf("unknown variable %s", spelt),
			fmt.Sprintf("did you mean {%s}? for the literal text write {%s}", near, spelt)}
	}
	return nil, nil
}

// near returns the known variable that word is most likely a typo of.
func (sc *Scope) near(word string) string {
	for _, p := range append(append([]string(nil), sc.Params...), sc.Partial...) {
		d := len(word) - len(p)
		if len(word) >= 3 && (d == 1 || d == -1) && levenshtein.ComputeDistance(word, p) == 1 {
			return p
		}
	}
	if len(word) < 5 {
		return ""
	}
	for _, k := range append(append([]string(nil), sc.Params...), builtins...) {
		if levenshtein.ComputeDistance(word, k) <= 1 || swapped(word, k) {
			return k
		}
	}
	return ""
}

// swapped reports whether a and b differ by two swapped neighboring letters.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// Compile parses a text of a file, reports unknown and forbidden variables, and warns about
// words that look like variables but are not.
func (sc *Scope) Compile(s *source.Source, raw string, line, col int) (Text, bool) {
	t, left, bad := sc.parse(raw)
	t.Line, t.Col = line, col
	for _, e := range bad {
		l, c := s.Find(line, col, e.spelt)
		s.Problem(l, c, e.hint, "%s", e.text)
	}
	for _, word := range left {
		l, c := s.Find(line, col, word)
		s.Warning(l, c, "", "%s in %s is not a variable and stays as written", word, sc.Where)
	}
	return t, len(bad) == 0
}
