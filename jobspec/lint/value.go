package lint

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A certainty is how well the value of a word is known.
type certainty int

const (
	constant certainty = iota // the same in every run
	unknown                   // from outside: $1, $(command), an unset variable
	granted                   // derived from the GPUs granted to the job
)

// A value is what a word evaluates to.
type value struct {
	kind   certainty
	texts  []string // possible texts, if constant; none if computed
	prefix string   // a prefix that is certain
	host   bool     // derived from {gpu} or {gpu_list}, which hold the host's numbers
}

// These bound how many texts a word is expanded to, and how many variables are followed in total.
// Without them, a=$b$b, b=$c$c and so on would take forever.
const (
	maxTexts       = 256
	maxScriptSteps = 2000
)

// join returns the concatenation of a and b.
func join(a, b value) value {
	v := value{kind: max(a.kind, b.kind), prefix: a.prefix, host: a.host || b.host}
	if a.kind == constant && len(a.texts) == 1 {
		v.prefix = a.texts[0] + b.prefix
	}
	if v.kind != constant {
		return v
	}
	for _, x := range a.texts {
		for _, y := range b.texts {
			if len(v.texts) == maxTexts || len(x)+len(y) > 4096 {
				return v
			}
			v.texts = append(v.texts, x+y)
		}
	}
	return v
}

// either returns a value that may be a or b.
func either(a, b value) value {
	v := value{kind: max(a.kind, b.kind), host: a.host || b.host}
	if v.kind == constant {
		v.texts = slices.Concat(a.texts, b.texts)
		v.texts = v.texts[:min(len(v.texts), maxTexts)]
	}
	return v
}

func text(s string) value { return value{texts: []string{s}, prefix: s} }

// one returns the text of a constant value that has only one possible text.
func (v value) one() (string, bool) {
	if v.kind == constant && len(v.texts) == 1 {
		return v.texts[0], true
	}
	return "", false
}

// eval evaluates a word as far as the script determines it.
func (l *linter) eval(w *syntax.Word) value {
	v := text("")
	for _, p := range w.Parts {
		v = join(v, l.part(p))
	}
	return v
}

func (l *linter) part(p syntax.WordPart) value {
	switch p := p.(type) {
	case *syntax.Lit:
		return l.placeholders(backslash.ReplaceAllString(p.Value, "$1"))
	case *syntax.SglQuoted:
		return l.placeholders(p.Value)
	case *syntax.DblQuoted:
		v := text("")
		for _, inner := range p.Parts {
			v = join(v, l.part(inner))
		}
		return v
	case *syntax.ParamExp:
		return l.expansion(p)
	case *syntax.ArithmExp, *syntax.CmdSubst:
		return l.computed(p)
	}
	return value{kind: unknown}
}

var backslash = regexp.MustCompile(`(?s)\\(.)`)

// placeholders returns the values of a literal, with its placeholders filled in.
func (l *linter) placeholders(s string) value {
	v := text("")
	from := 0
	for i, r := range s {
		h := l.placeholder(r)
		if h == nil {
			continue
		}
		v = join(v, text(s[from:i]))
		switch {
		case h.Granted:
			v = join(v, value{kind: granted, host: true})
		case h.Values == nil:
			v = join(v, value{kind: unknown})
		default:
			v = join(v, value{texts: h.Values[:min(len(h.Values), maxTexts)]})
		}
		from = i + len(string(r))
	}
	return join(v, text(s[from:]))
}

func grantedName(name string) bool {
	return name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES"
}

// expansion evaluates $NAME or ${NAME…}.
func (l *linter) expansion(p *syntax.ParamExp) value {
	if p.Param == nil {
		return value{kind: unknown}
	}
	name := p.Param.Value
	if grantedName(name) {
		return value{kind: granted}
	}
	v := l.variable(name)
	if v.kind == constant && (p.Length || p.Slice != nil || p.Repl != nil || p.Exp != nil) {
		v.texts, v.prefix = nil, "" // computed from a constant, so the same in every run
	}
	return v
}

// variable returns all values that a variable of the script may be set to.
func (l *linter) variable(name string) value {
	from, ok := l.vars[name]
	if !ok {
		if env, ok := l.job.Env[name]; ok {
			return l.placeholders(env)
		}
		return l.outside()
	}
	if l.busy[name] {
		return value{} // x=$x.y adds nothing to the values of x
	}
	if l.steps++; len(l.busy) > 20 || l.steps > maxScriptSteps {
		return value{kind: unknown}
	}
	l.busy[name] = true
	defer delete(l.busy, name)
	v := l.follow(from[0])
	for _, s := range from[1:] {
		v = either(v, l.follow(s))
	}
	return v
}

// outside returns a value that the script does not determine. If the script uses the granted GPUs
// anywhere, the value may depend on them.
func (l *linter) outside() value {
	if l.granted {
		return value{kind: granted}
	}
	return value{kind: unknown}
}

// computed evaluates $((…)) or $(…), which is only as certain as its least certain part.
func (l *linter) computed(n syntax.Node) value {
	v := value{}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			v.kind = max(v.kind, l.expansion(n).kind)
		case *syntax.Word:
			if name := n.Lit(); syntax.ValidName(name) && (l.vars[name] != nil || l.job.Env[name] != "") {
				v.kind = max(v.kind, l.variable(name).kind)
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() != "seq" && n.Args[0].Lit() != "echo" {
				v.kind = max(v.kind, l.outside().kind)
			}
		case *syntax.Lit:
			v.kind = max(v.kind, l.placeholders(n.Value).kind)
		}
		return true
	})
	return v
}

// An origin is a source of a variable's value.
type origin struct {
	node  syntax.Node // a word, or an expression that computes the value; nil for a value from outside
	maybe bool        // the variable is set only under some condition
}

func (l *linter) follow(s origin) value {
	var v value
	switch n := s.node.(type) {
	case nil:
		v = l.outside()
	case *syntax.Word:
		v = l.sequence(n)
	default:
		v = l.computed(n)
	}
	if s.maybe && v.kind == constant {
		v = either(v, value{kind: unknown})
	}
	return v
}

// sequence evaluates a word that may be a list, as in a loop. For {0..3}, it returns only the ends.
func (l *linter) sequence(w *syntax.Word) value {
	if lit := w.Lit(); strings.HasPrefix(lit, "{") && strings.HasSuffix(lit, "}") {
		inner := lit[1 : len(lit)-1]
		if ends := strings.Split(inner, ".."); len(ends) > 1 {
			return value{texts: ends[:2]}
		}
		if list := strings.Split(inner, ","); len(list) > 1 {
			return value{texts: list}
		}
	}
	v := l.eval(w)
	if v.kind == constant && len(v.texts) == 1 {
		if words := strings.Fields(v.texts[0]); len(words) > 1 && len(w.Parts) == 1 {
			v.texts = append(v.texts, words[:min(len(words), maxTexts)]...)
		}
	}
	return v
}

// origins records the sources of variables that a node sets. It skips assignments within $(…), which
// do not affect the rest of the script.
func (l *linter) origins(n syntax.Node, maybe bool) bool {
	switch n := n.(type) {
	case *syntax.CmdSubst, *syntax.ProcSubst:
		return false
	case *syntax.CallExpr:
		if len(n.Args) > 0 { // assignments before a command apply only to it
			l.reads(n)
			return false
		}
	case *syntax.Assign:
		l.assigned(n, maybe)
	case *syntax.ForClause:
		l.loop(n, maybe)
	}
	return true
}

func (l *linter) set(name string, node syntax.Node, maybe bool) {
	if len(l.vars[name]) < maxTexts {
		l.vars[name] = append(l.vars[name], origin{node, maybe})
	}
}

func (l *linter) assigned(a *syntax.Assign, maybe bool) {
	switch {
	case a.Name == nil || a.Naked:
	case a.Array != nil:
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				l.set(a.Name.Value, e.Value, maybe)
			}
		}
	case a.Value != nil:
		l.set(a.Name.Value, a.Value, maybe)
	default:
		l.set(a.Name.Value, &syntax.Word{}, maybe)
	}
}

// reads records the variables that read and similar commands set.
func (l *linter) reads(c *syntax.CallExpr) {
	switch c.Args[0].Lit() {
	case "read", "mapfile", "readarray", "getopts", "printf":
		for _, w := range c.Args[1:] {
			if name := w.Lit(); syntax.ValidName(name) {
				l.set(name, nil, false)
			}
		}
	}
}

func (l *linter) loop(c *syntax.ForClause, maybe bool) {
	switch it := c.Loop.(type) {
	case *syntax.WordIter:
		if !it.InPos.IsValid() || c.Select {
			l.set(it.Name.Value, nil, false)
		}
		for _, w := range it.Items {
			l.set(it.Name.Value, w, maybe)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{it.Init, it.Post} {
			if b, ok := x.(*syntax.BinaryArithm); ok {
				if w, ok := b.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) {
					l.set(w.Lit(), &syntax.ArithmExp{X: b.Y}, false)
				}
			}
		}
	}
}
