package jobspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/agnivade/levenshtein"
)

// Texts with {variables} are parsed once and rendered for each job that is looked at: a
// text is a list of segments, each literal or a variable.

type varKind uint8

const (
	varLiteral varKind = iota
	varParam
	varName
	varWorkDir
	varUniID
	varAttempt
	varGPUList
	varGPU
	varNGPUs
	varPort
	varConfig
	varLog
)

type varSet uint16

func setOf(kinds ...varKind) (s varSet) {
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

func (s varSet) has(k varKind) bool { return s&(1<<k) != 0 }

// What each place of a job can use besides the job's parameters.
var (
	inName   = setOf()
	inJob    = setOf(varName, varWorkDir)
	atStart  = inJob | setOf(varUniID, varAttempt, varGPUList, varGPU, varNGPUs, varPort, varConfig, varLog)
	inLog    = atStart &^ setOf(varLog)
	inConfig = atStart &^ setOf(varConfig)
)

var builtins = []string{"name", "work_dir", "uni_id", "attempt", "gpu_list", "gpu", "ngpus", "port", "config", "log"}

// builtin returns the kind of a variable that every job has, or varLiteral.
func builtin(word string) varKind {
	if i := slices.Index(builtins, word); i >= 0 {
		return varName + varKind(i)
	}
	return varLiteral
}

// numeric reports whether a run-time variable can have a number format.
func (k varKind) numeric() bool {
	return k == varAttempt || k == varGPU || k == varNGPUs || k == varPort
}

type segment struct {
	kind   varKind
	format string // after the colon: "q", "03d"
	lit    string // literal text, or the variable as spelled, braces included
	param  string // name, for varParam
	index  int    // where that parameter usually is
}

// A text is a string of the job file, parsed.
type text struct {
	segs      []segment
	raw       string
	line, col int
}

// sole returns the variable that makes up the whole text, or nil.
func (t *text) sole() *segment {
	if len(t.segs) == 1 && t.segs[0].kind != varLiteral && t.segs[0].format == "" {
		return &t.segs[0]
	}
	return nil
}

// constant reports whether the text is the same for every job.
func (t *text) constant() bool {
	return len(t.segs) == 0 || len(t.segs) == 1 && t.segs[0].kind == varLiteral
}

func (t *text) uses(k varKind) bool {
	return slices.ContainsFunc(t.segs, func(s segment) bool { return s.kind == k })
}

func literal(s string) text {
	t := text{raw: s}
	if s != "" {
		t.segs = []segment{{kind: varLiteral, lit: s}}
	}
	return t
}

var (
	variable     = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*)(?::(q|0?[0-9]{0,2}(?:\.[0-9]{1,2})?[dfeEgGxX]))?\}`)
	numberFormat = regexp.MustCompile(`^(0?)([0-9]{0,2})(\.[0-9]{1,2})?([dfeEgGxX])$`)
)

// A scope is what a text may refer to.
type scope struct {
	params  []string // in the order jobs have them
	partial []string // parameters that only some expansions have
	known   varSet
	where   string // "outputs", for messages
}

// wordError is a {word} that is refused.
type wordError struct{ spelt, text, hint string }

// compile parses s. Words that look like variables but are not are returned in left,
// those that must be refused in bad.
func (sc *scope) compile(s string) (t text, left []string, bad []*wordError) {
	t.raw = s
	from := 0
	add := func(upTo int, seg segment, next int) {
		if upTo > from {
			t.segs = append(t.segs, segment{kind: varLiteral, lit: s[from:upTo]})
		}
		t.segs = append(t.segs, seg)
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
			if m := variable.FindString(s[i+1:]); m != "" && strings.HasPrefix(s[i+1+len(m):], "}") {
				next := i + len(m) + 2
				if seg, e := sc.word(m); seg != nil || e != nil {
					add(i, segment{kind: varLiteral, lit: m}, next)
				}
				i = next
				continue
			}
			i++
			continue
		}
		m := variable.FindString(s[i:])
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
		t.segs = append(t.segs, segment{kind: varLiteral, lit: s[from:]})
	}
	t.segs = joinLiterals(t.segs)
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

func joinLiterals(segs []segment) []segment {
	out := segs[:0]
	for _, g := range segs {
		if n := len(out); n > 0 && g.kind == varLiteral && out[n-1].kind == varLiteral {
			out[n-1].lit += g.lit
			continue
		}
		out = append(out, g)
	}
	return out
}

// word parses one {word}: it returns a segment, a refusal, or neither.
func (sc *scope) word(spelt string) (*segment, *wordError) {
	m := variable.FindStringSubmatch(spelt)
	name, format := m[1], m[2]
	if i := slices.Index(sc.params, name); i >= 0 {
		return &segment{kind: varParam, format: format, lit: spelt, param: name, index: i}, nil
	}
	if slices.Contains(sc.partial, name) {
		return nil, &wordError{spelt, fmt.Sprintf("not every job of the matrix has a value for %s: only some include entries set it", spelt),
			fmt.Sprintf("an include entry with only %s sets it for all", name)}
	}
	if k := builtin(name); k != varLiteral {
		switch {
		case !sc.known.has(k):
			return nil, &wordError{spelt, fmt.Sprintf("%s is not available in %s", spelt, sc.where), "for the literal text write {" + spelt + "}"}
		case format != "" && format != "q" && !k.numeric():
			return nil, &wordError{spelt, fmt.Sprintf("%s: {%s} is not a number", spelt, name), "remove the format"}
		}
		return &segment{kind: k, format: format, lit: spelt}, nil
	}
	if near := sc.near(name); near != "" {
		return nil, &wordError{spelt, fmt.Sprintf("unknown variable %s", spelt),
			fmt.Sprintf("did you mean {%s}? for the literal text write {%s}", near, spelt)}
	}
	return nil, nil
}

// near returns the known variable that word is most likely a typo of.
func (sc *scope) near(word string) string {
	for _, p := range append(append([]string(nil), sc.params...), sc.partial...) {
		d := len(word) - len(p)
		if len(word) >= 3 && (d == 1 || d == -1) && levenshtein.ComputeDistance(word, p) == 1 {
			return p
		}
	}
	if len(word) < 5 {
		return ""
	}
	for _, k := range append(append([]string(nil), sc.params...), builtins...) {
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

// values are what variables stand for while one job is rendered.
type values struct {
	params  []Param // as spelled in the file
	nested  nestedTexts
	name    string
	workDir string
	config  string
	log     string
	rt      *Runtime // nil: run-time variables and {work_dir} stay as names, as in the key
	planned bool     // work dir and config are known, though there is no attempt yet
}

// append appends the rendered t to buf.
func (t *text) append(buf []byte, v *values) []byte {
	for i := range t.segs {
		buf = t.segs[i].append(buf, v)
	}
	return buf
}

func (t *text) render(v *values) string {
	if t.constant() {
		if len(t.segs) == 0 {
			return ""
		}
		return t.segs[0].lit
	}
	return string(t.append(nil, v))
}

func (g *segment) append(buf []byte, v *values) []byte {
	if g.kind == varLiteral {
		return append(buf, g.lit...)
	}
	var value string
	switch {
	case g.kind == varParam:
		value = v.param(g).Text
	case g.kind == varName:
		value = v.name
	case v.isLater(g.kind):
		return append(buf, g.lit...)
	default:
		value = v.runtime(g.kind)
	}
	switch g.format {
	case "":
		return append(buf, value...)
	case "q":
		return append(buf, shellescape.Quote(value)...)
	}
	formatted, err := formatNumber(g.format, value)
	if err != nil {
		formatted = value
	}
	return append(buf, formatted...)
}

func (v *values) param(g *segment) Param {
	if g.index < len(v.params) && v.params[g.index].Name == g.param {
		return v.resolve(v.params[g.index])
	}
	for _, p := range v.params {
		if p.Name == g.param {
			return v.resolve(p)
		}
	}
	return Param{Name: g.param, Tag: "!!null"}
}

func (v *values) runtime(k varKind) string {
	switch k {
	case varWorkDir:
		return v.workDir
	case varUniID:
		return v.rt.UniID
	case varAttempt:
		return strconv.Itoa(v.rt.Attempt)
	case varGPUList:
		var ids []string
		for _, i := range v.rt.GPUs {
			ids = append(ids, strconv.Itoa(i))
		}
		return strings.Join(ids, ",")
	case varGPU:
		if len(v.rt.GPUs) > 0 {
			return strconv.Itoa(v.rt.GPUs[0])
		}
		return ""
	case varNGPUs:
		return strconv.Itoa(len(v.rt.GPUs))
	case varPort:
		return strconv.Itoa(v.rt.Port)
	case varConfig:
		return v.config
	}
	return v.log
}

// formatNumber formats a number as 03d, .2f, e and the like.
func formatNumber(format, value string) (string, error) {
	if !numberFormat.MatchString(format) {
		return "", fmt.Errorf("invalid number format %q", format)
	}
	if strings.ContainsAny(format[len(format)-1:], "dxX") {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(value, 64)
			if n = int64(f); ferr != nil || float64(n) != f {
				return "", fmt.Errorf("%q is not a whole number", value)
			}
		}
		m := numberFormat.FindStringSubmatch(format)
		format = m[1] + m[2] + m[4]
		return fmt.Sprintf("%"+format, n), nil
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return "", fmt.Errorf("%q is not a number", value)
	}
	return fmt.Sprintf("%"+format, f), nil
}
