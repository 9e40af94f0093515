package expand

import (
	"slices"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// An entry is one item of include or exclude, as the matrix sees it.
type entry struct {
	node   *yaml.Node
	given  []Param  // everything in it, in order
	extra  []Param  // parameters that the matrix does not have
	points [][]bool // per axis, which points agree; nil if the entry does not mention the axis
	used   bool
}

// choose applies exclude, then include, as GitHub Actions does. An exclude entry
// removes the combinations that agree with all its values. An include entry adds its
// new parameters to each combination it would not otherwise change; if there is none,
// it becomes a combination of its own.
func (r *matrixReader) choose(exclude, include *yaml.Node) {
	excludes := r.entries(exclude, "exclude")
	includes := r.entries(include, "include")
	if r.fails {
		return
	}
	m := &r.m
	if len(excludes) > 0 || len(includes) > 0 {
		r.combine(excludes, includes)
	}
	r.presence(includes)
	for _, e := range excludes {
		if !e.used {
			r.Warning(e.node.Line, e.node.Column, "", "this exclude entry matches nothing")
		}
	}
	if m.Count() == 0 {
		r.fail(exclude, "", "exclude removes every job of this matrix")
	}
}

func (r *matrixReader) combine(excludes, includes []entry) {
	m := &r.m
	m.combos = []int32{}
	total := m.size()
	if len(m.axes) == 0 && len(includes) > 0 {
		total = 0 // include alone: only what it lists
	}
	at := make([]int, len(m.axes))
	for n := 0; n < total; n++ {
		for i, rest := len(at)-1, n; i >= 0; i-- {
			at[i], rest = rest%m.axes[i].size(), rest/m.axes[i].size()
		}
		if excluded(excludes, at) {
			continue
		}
		combo := int32(n)
		if extra := extras(includes, at); len(extra) > 0 {
			m.odd = append(m.odd, append(m.params(combo, nil), extra...))
			combo = int32(-len(m.odd))
		}
		m.combos = append(m.combos, combo)
	}
	for i := range includes {
		if e := &includes[i]; !e.used {
			m.odd = append(m.odd, append(slices.Clone(e.given), m.consts...))
			m.combos = append(m.combos, int32(-len(m.odd)))
		}
	}
}

func (e *entry) agrees(at []int) bool {
	for i, points := range e.points {
		if points != nil && !points[at[i]] {
			return false
		}
	}
	return true
}

func excluded(excludes []entry, at []int) bool {
	out := false
	for i := range excludes {
		if excludes[i].agrees(at) {
			excludes[i].used, out = true, true
		}
	}
	return out
}

// extras returns what include adds to one combination; later entries win.
func extras(includes []entry, at []int) []Param {
	var extra []Param
	for i := range includes {
		e := &includes[i]
		if !e.agrees(at) {
			continue
		}
		e.used = true
		for _, p := range e.extra {
			if j := slices.IndexFunc(extra, func(q Param) bool { return q.Name == p.Name }); j >= 0 {
				extra[j] = p
			} else {
				extra = append(extra, p)
			}
		}
	}
	return extra
}

// entries reads a list of mappings from parameters to values.
func (r *matrixReader) entries(n *yaml.Node, what string) []entry {
	if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "write [{name: value}]", "%s must be a list of mappings, not %s", what, source.Describe(n))
		return nil
	}
	var list []entry
	for _, item := range n.Content {
		e := entry{node: item, points: make([][]bool, len(r.m.axes))}
		ok := r.Pairs(item, "an entry of "+what, func(k, v *yaml.Node) { r.entryValue(&e, k, v, what) })
		if !ok {
			r.fails = true
		}
		list = append(list, e)
	}
	return list
}

func (r *matrixReader) entryValue(e *entry, k, v *yaml.Node, what string) {
	name := k.Value
	if v.Kind != yaml.ScalarNode {
		r.fail(v, source.QuoteHint(v), "%s: %q must be a single value, not %s", what, name, source.Describe(v))
		return
	}
	r.oneValueSlip(name, v)
	p := r.value(name, v)
	e.given = append(e.given, p)
	for i := range r.m.axes {
		a := &r.m.axes[i]
		if j := slices.Index(a.names, name); j >= 0 {
			e.limit(i, a, j, p)
			return
		}
	}
	if slices.ContainsFunc(r.m.consts, func(c Param) bool { return c.Name == name }) {
		r.fail(k, "remove it here, or move it from params to matrix", "%s: %q is in params, so it is the same in every job", what, name)
		return
	}
	if what == "exclude" && r.loose {
		return
	}
	if what == "exclude" {
		var names []string
		for _, a := range r.m.axes {
			names = append(names, a.names...)
		}
		r.fail(k, source.DidYouMean(name, names, "use only parameters of the matrix"), "exclude: the matrix has no parameter %q", name)
		return
	}
	if r.at[name] == nil && !r.declare(k) {
		return
	}
	e.extra = append(e.extra, p)
}

// limit keeps only the points of axis i whose value j is p.
func (e *entry) limit(i int, a *axis, j int, p Param) {
	fresh := e.points[i] == nil
	if fresh {
		e.points[i] = make([]bool, a.size())
	}
	want := canonical(p)
	for n := range e.points[i] {
		e.points[i][n] = (fresh || e.points[i][n]) && canonical(a.point(n)[j]) == want
	}
}

// presence determines which parameters every expansion has.
func (r *matrixReader) presence(includes []entry) {
	m := &r.m
	var names []string
	for _, a := range m.axes {
		names = append(names, a.names...)
	}
	for _, c := range m.consts {
		names = append(names, c.Name)
	}
	all := len(names)
	for _, e := range includes {
		for _, p := range e.extra {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	have := make([]int, len(names))
	plain := m.Count() - len(m.odd)
	for i := range names[:all] {
		have[i] = plain
	}
	for _, o := range m.odd {
		for _, p := range o {
			have[slices.Index(names, p.Name)]++
		}
	}
	for i, n := range names {
		if have[i] == m.Count() {
			m.Always = append(m.Always, n)
		} else {
			m.Partial = append(m.Partial, n)
		}
	}
}
