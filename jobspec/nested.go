package jobspec

import (
	"fmt"
	"slices"
	"strings"
)

// A value of a parameter may be made of other parameters: out: "runs/{scene}".
// Such values are taken apart once, and put together when somebody looks at a job,
// so that the product of a matrix need not be written out.

// nestedTexts are the values that name variables, by parameter and by value as
// spelt in the file.
type nestedTexts map[string]map[string]*text

// maxNested bounds what one value may grow to: ten parameters that double each
// other are a slip, thirty would fill the memory.
const maxNested = 1 << 20

// values are the variables of one expansion, run-time variables left as names.
func (m *matrix) values(combo int32, name string, buf []Param) values {
	return values{params: m.params(combo, buf), nested: m.nested, name: name}
}

// resolve puts together a value that is made of others.
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

// resolved are all parameters with their values put together.
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

// nest takes apart the values that name variables, and refuses circles.
func (r *matrixReader) nest() {
	m := &r.m
	sc := scope{params: m.always, partial: m.partial, known: setOf(varWorkDir)}
	for i := range m.axes {
		for _, p := range m.axes[i].values {
			r.nestValue(&sc, p)
		}
	}
	// The names of jobs may be made of a matrix, but not of params that hold {name}.
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
	t, ok := r.source.compile(sc, p.Text, at.Line, at.Column)
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

// circles refuses parameters that are made of themselves, and finds which
// variables of the job each of the others comes to hold.
func (r *matrixReader) circles() {
	c := &circleFinder{m: &r.m, size: map[string]int{}}
	c.m.reach = map[string]varSet{}
	for _, name := range r.order {
		switch size := c.visit(name); {
		case c.circle != nil:
			i := slices.Index(c.circle, c.circle[len(c.circle)-1])
			r.fail(r.at[c.circle[i]], "take one of them out", "parameters are made of each other in a circle: %s", strings.Join(c.circle[i:], " → "))
			return
		case size > maxNested:
			r.fail(r.at[name], "", "the value of parameter %q would be longer than %d MiB", name, maxNested>>20)
			return
		}
	}
}

type circleFinder struct {
	m      *matrix
	size   map[string]int // the longest value of each; -1 while it is being looked at
	path   []string
	circle []string
}

// visit is the length of the longest value of a parameter.
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

// length is an upper bound of how long a value gets, and notes what it holds.
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

// nestedName refuses a name made of a parameter that holds the name itself, or a
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
			text = fmt.Sprintf("the name is made of itself: name → %s → name", g.param)
		case reach.has(varWorkDir):
			text = fmt.Sprintf("%s is not known in name: it holds {work_dir}", g.lit)
		default:
			continue
		}
		p.told = true
		l, col := p.src.find(p.name.line, p.name.col, g.lit)
		p.src.problem(l, col, "name the other parameters instead", "%s", text)
	}
}

// nestedFormats checks the number formats in values of parameters.
func (p *proto) nestedFormats() {
	for name, list := range p.matrix.nested {
		for _, t := range list {
			p.checkFormats(t, "the parameter "+name)
		}
	}
}
