package expand

import (
	"slices"
	"strings"
)

// A parameter's value may refer to other parameters: out: "runs/{scene}". Such values
// are parsed once and rendered when a job is looked at, so that the product of a
// matrix need not be stored.

// nestedTexts are the values that refer to variables, by parameter and by value as
// spelled in the file.
type nestedTexts map[string]map[string]*Text

// maxNested bounds the length of a value: ten parameters that double each other may be
// a slip, but thirty would fill memory.
const maxNested = 1 << 20

// Resolve renders a value that refers to other parameters.
func (v *Values) Resolve(p Param) Param {
	t := v.nested[p.Name][p.Text]
	if t == nil {
		return p
	}
	if g := t.Sole(); g != nil && g.Kind == VarParam {
		q := v.Param(g)
		return Param{Name: p.Name, Text: q.Text, Tag: q.Tag}
	}
	return Param{Name: p.Name, Text: t.Render(v), Tag: "!!str"}
}

// Resolved returns all parameters with their values rendered.
func (v *Values) Resolved() []Param {
	if v.nested == nil {
		return v.Params
	}
	list := make([]Param, len(v.Params))
	for i, p := range v.Params {
		list[i] = v.Resolve(p)
	}
	return list
}

// nest parses the values that refer to variables and refuses circular references.
func (r *matrixReader) nest() {
	m := &r.m
	sc := Scope{Params: m.Always, Partial: m.Partial, Known: setOf(VarWorkDir)}
	for i := range m.axes {
		for _, p := range m.axes[i].values {
			r.nestValue(&sc, p)
		}
	}
	// A job's name may use matrix parameters, but not params that contain {name}.
	sc.Known |= setOf(VarName)
	for _, p := range m.consts {
		r.nestValue(&sc, p)
	}
	sc.Known = setOf(VarWorkDir)
	for _, list := range m.rows {
		if slices.ContainsFunc(list, func(p Param) bool { return strings.Contains(p.Text, "{") }) {
			sc.Params, sc.Partial = paramNames(list), append(slices.Clone(m.Always), m.Partial...)
			for _, p := range list {
				r.nestValue(&sc, p)
			}
		}
	}
	if !r.fails && m.Nested != nil {
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

func (r *matrixReader) nestValue(sc *Scope, p Param) {
	at := r.at[p.Name]
	if at == nil || r.nested[p] || !strings.Contains(p.Text, "{") {
		return
	}
	r.nested[p] = true
	sc.Where = "the parameter " + p.Name
	t, ok := sc.Compile(r.Source, p.Text, at.Line, at.Column)
	r.fails = r.fails || !ok
	if t.Constant() && t.Render(nil) == p.Text {
		return
	}
	if r.m.Nested == nil {
		r.m.Nested = nestedTexts{}
	}
	if r.m.Nested[p.Name] == nil {
		r.m.Nested[p.Name] = map[string]*Text{}
	}
	r.m.Nested[p.Name][p.Text] = &t
}

// circles refuses parameters defined in terms of themselves, and finds out which of
// the job's variables each of the others contains.
func (r *matrixReader) circles() {
	c := &circleFinder{m: &r.m, size: map[string]int{}}
	c.m.Reach = map[string]VarSet{}
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
	m      *Matrix
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
	t := c.m.Nested[name][p.Text]
	if t == nil {
		return len(p.Text)
	}
	n := 0
	for i := range t.Segs {
		g := &t.Segs[i]
		switch g.Kind {
		case VarParam:
			n += c.visit(g.Param)
			c.m.Reach[name] |= c.m.Reach[g.Param]
		default:
			n += len(g.Lit)
			c.m.Reach[name] |= setOf(g.Kind)
		}
		if c.circle != nil || n > maxNested {
			return n
		}
	}
	return n
}
