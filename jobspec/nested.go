package jobspec

import (
	"fmt"
	"slices"
	"strings"
)

// A parameter's value may refer to other parameters: out: "runs/{scene}". Such values
// are parsed once and rendered when a job is looked at, so that the product of a
// matrix need not be stored.

// nestedTexts are the values that refer to variables, by parameter and by value as
// spelled in the file.
type nestedTexts map[string]map[string]*text

// maxNested bounds the length of a value: ten parameters that double each other may be
// a slip, but thirty would fill memory.
const maxNested = 1 << 20

// values returns the variables of one expansion; run-time variables stay as names.
func (m *matrix) values(combo int32, name string, buf []Param) values {
	return values{params: m.params(combo, buf), nested: m.nested, name: name}
}

// resolve renders a value that refers to other parameters.
func (v *values) resolve(p Param) Param {
	t := v.nested[p.Name][p.Text]
	if t == nil {
		return p
	}
	if g := t.sole(); g != nil && g.kind == varParam {
		q := v.param(g)
		return Param{Name: p.Name, Text: q.Text, Tag: q.Tag}
	}
	return Param{Name: p.Name, Text: t.render(v), Tag: "!!str"}
}

// resolved returns all parameters with their values rendered.
func (v *values) resolved() []Param {
	if v.nested == nil {
		return v.params
	}
	list := make([]Param, len(v.params))
	for i, p := range v.params {
		list[i] = v.resolve(p)
	}
	return list
}

// nest parses the values that refer to variables and refuses circular references.
func (r *matrixReader) nest() {
	m := &r.m
	sc := scope{params: m.always, partial: m.partial, known: setOf(varWorkDir)}
	for i := range m.axes {
		for _, p := range m.axes[i].values {
			r.nestValue(&sc, p)
		}
	}
	// A job's name may use matrix parameters, but not params that contain {name}.
	sc.known |= setOf(varName)
	for _, p := range m.consts {
		r.nestValue(&sc, p)
	}
	sc.known = setOf(varWorkDir)
	for _, list := range m.odd {
		if slices.ContainsFunc(list, func(p Param) bool { return strings.Contains(p.Text, "{") }) {
			sc.params, sc.partial = paramNames(list), append(slices.Clone(m.always), m.partial...)
			for _, p := range list {
				r.nestValue(&sc, p)
			}
		}
	}
	if !r.fails && m.nested != nil {
		r.circles()
	}
}

func paramNames(list []Param) []string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return names
}

func (r *matrixReader) nestValue(sc *scope, p Param) {
	if !strings.Contains(p.Text, "{") || r.m.nested[p.Name][p.Text] != nil {
		return
	}
	at := r.at[p.Name]
	if at == nil {
		return
	}
	sc.where = "the parameter " + p.Name
	t, ok := compile(r.Source, sc, p.Text, at.Line, at.Column)
	r.fails = r.fails || !ok
	if t.constant() && t.render(nil) == p.Text {
		return
	}
	if r.m.nested == nil {
		r.m.nested = nestedTexts{}
	}
	if r.m.nested[p.Name] == nil {
		r.m.nested[p.Name] = map[string]*text{}
	}
	r.m.nested[p.Name][p.Text] = &t
}

// circles refuses parameters defined in terms of themselves, and finds out which of
// the job's variables each of the others contains.
func (r *matrixReader) circles() {
	c := &circleFinder{m: &r.m, size: map[string]int{}}
	c.m.reach = map[string]varSet{}
	for _, name := range r.order {
		switch size := c.visit(name); {
		case c.circle != nil:
			i := slices.Index(c.circle, c.circle[len(c.circle)-1])
			r.fail(r.at[c.circle[i]], "remove one of them", "circular parameters: %s", strings.Join(c.circle[i:], " → "))
			return
		case size > maxNested:
			r.fail(r.at[name], "", "the value of parameter %q would be longer than %d MiB", name, maxNested>>20)
			return
		}
	}
}

type circleFinder struct {
	m      *matrix
	size   map[string]int // the longest value of each; -1 while being computed
	path   []string
	circle []string
}

// visit returns the length of the longest value of a parameter.
func (c *circleFinder) visit(name string) int {
	if size, ok := c.size[name]; ok {
		if size < 0 {
			c.circle = append(slices.Clone(c.path), name)
		}
		return size
	}
	c.size[name] = -1
	c.path = append(c.path, name)
	longest := 0
	c.m.each(name, func(p Param) bool {
		longest = max(longest, c.length(name, p))
		return c.circle == nil
	})
	c.path = c.path[:len(c.path)-1]
	c.size[name] = longest
	return longest
}

// length returns an upper bound for the length of a value, and notes what it contains.
func (c *circleFinder) length(name string, p Param) int {
	t := c.m.nested[name][p.Text]
	if t == nil {
		return len(p.Text)
	}
	n := 0
	for i := range t.segs {
		g := &t.segs[i]
		switch g.kind {
		case varParam:
			n += c.visit(g.param)
			c.m.reach[name] |= c.m.reach[g.param]
		default:
			n += len(g.lit)
			c.m.reach[name] |= setOf(g.kind)
		}
		if c.circle != nil || n > maxNested {
			return n
		}
	}
	return n
}

// nestedName refuses a name that uses a parameter containing the name itself, or a
// path that differs from machine to machine.
func (p *proto) nestedName() {
	if p.matrix == nil {
		return
	}
	for i := range p.name.segs {
		g := &p.name.segs[i]
		reach := p.matrix.reach[g.param]
		var text string
		switch {
		case g.kind != varParam:
			continue
		case reach.has(varName):
			text = fmt.Sprintf("the name refers to itself: name → %s → name", g.param)
		case reach.has(varWorkDir):
			text = fmt.Sprintf("%s is not available in name: it contains {work_dir}", g.lit)
		default:
			continue
		}
		p.told = true
		l, col := p.src.Find(p.name.line, p.name.col, g.lit)
		p.src.Problem(l, col, "use the other parameters instead", "%s", text)
	}
}

// nestedFormats checks number formats in parameters' values.
func (p *proto) nestedFormats() {
	for name, list := range p.matrix.nested {
		for _, t := range list {
			p.checkFormats(t, "the parameter "+name)
		}
	}
}
