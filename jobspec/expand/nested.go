package expand

import (
	"slices"
	"strings"
)

// A parameter's value may refer to other parameters: out: "runs/{scene}". Such values are parsed
// once and rendered on demand.

// maxNested bounds the length of a value. Without it, thirty parameters that each contain another
// one twice would fill memory.
const maxNested = 1 << 20

// resolve renders a value that refers to other parameters.
func (v *Values) resolve(p *Param) Param {
	if p.made == nil {
		return *p
	}
	if g := p.made.Sole(); g != nil && g.Kind == VarParam {
		q := v.Param(g.Param)
		return Param{Name: p.Name, Text: q.Text, Tag: q.Tag}
	}
	return Param{Name: p.Name, Text: p.made.Render(v), Tag: "!!str"}
}

// Resolved returns all parameters with their values rendered.
func (v *Values) Resolved() []Param {
	list := make([]Param, len(v.Params))
	for i, p := range v.Params {
		list[i] = v.resolve(p)
	}
	return list
}

// nest parses values that refer to variables, and refuses circular references.
func (r *matrixReader) nest() {
	m := &r.m
	sc := Scope{Params: m.Always, Partial: m.Partial, Known: setOf(VarWorkDir)}
	for _, a := range m.axes {
		for _, values := range a.values {
			r.nestValues(sc, values)
		}
	}
	// A job's name may use matrix parameters, but not params that contain {name}.
	sc.Known |= setOf(VarName)
	r.nestValues(sc, m.consts)
	sc.Known, sc.Partial = setOf(VarWorkDir), slices.Concat(m.Always, m.Partial)
	for _, row := range m.rows {
		if slices.ContainsFunc(row, r.toParse) {
			sc.Params = nil
			for _, p := range row {
				sc.Params = append(sc.Params, p.Name)
			}
			r.nestValues(sc, row)
		}
	}
	if !r.fails && slices.ContainsFunc(r.order, func(name string) bool { return len(m.Made(name)) > 0 }) {
		r.circles()
	}
}

// toParse reports whether a value may refer to variables and has not been parsed yet.
func (r *matrixReader) toParse(p *Param) bool { return !r.nested[p] && strings.Contains(p.Text, "{") }

func (r *matrixReader) nestValues(sc Scope, values []*Param) {
	for _, p := range values {
		if !r.toParse(p) {
			continue
		}
		r.nested[p] = true
		sc.Where = "the parameter " + p.Name
		at, ok := r.rowAt[p]
		if !ok {
			at = place{r.Source, r.m.at[p.Name].Line, r.m.at[p.Name].Column}
		}
		t, ok := sc.Compile(at.in, p.Text, at.line, at.col)
		r.fails = r.fails || !ok
		if !t.Constant() || t.Render(nil) != p.Text {
			p.made = t
		}
	}
}

// circles reports parameters that are defined in terms of themselves. For all others, it records
// which of the job's variables they contain.
func (r *matrixReader) circles() {
	c := &circleFinder{m: &r.m, size: map[string]int{}}
	c.m.Reach = map[string]VarSet{}
	for _, name := range r.order {
		switch size := c.visit(name); {
		case c.circle != nil:
			i := slices.Index(c.circle, c.circle[len(c.circle)-1])
			r.fail(r.m.at[c.circle[i]], "remove one of them", "circular parameters: %s", strings.Join(c.circle[i:], " → "))
			return
		case size > maxNested:
			r.fail(r.m.at[name], "", "the value of parameter %q would be longer than %d MiB", name, maxNested>>20)
			return
		}
	}
}

type circleFinder struct {
	m      *Matrix
	size   map[string]int // length of each parameter's longest value; -1 while being computed
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
	for _, p := range c.m.values[name] {
		if longest = max(longest, c.length(p)); c.circle != nil {
			break
		}
	}
	c.path = c.path[:len(c.path)-1]
	c.size[name] = longest
	return longest
}

// length returns an upper bound for the length of a value, and records the variables in it.
func (c *circleFinder) length(p *Param) int {
	if p.made == nil {
		return len(p.Text)
	}
	n := 0
	for _, g := range p.made.Segs {
		switch g.Kind {
		case VarParam:
			n += c.visit(g.Param)
			c.m.Reach[p.Name] |= c.m.Reach[g.Param]
		default:
			n += len(g.Lit)
			c.m.Reach[p.Name] |= setOf(g.Kind)
		}
		if c.circle != nil || n > maxNested {
			return n
		}
	}
	return n
}
