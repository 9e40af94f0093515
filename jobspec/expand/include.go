package expand

import (
	"cmp"
	"slices"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// An entry is one item of include or exclude, interpreted for the matrix.
type entry struct {
	node   *yaml.Node
	given  []*Param // all of its parameters, in order
	agrees []*Param // those that a combination must match; numbers are compared by value
	extra  []*Param // those that are not in the matrix
	used   bool     // it matches a combination
	kept   bool     // some job has one of its new parameters
	other  bool     // values set on the command line rule it out
}

// choose applies exclude, then include, as GitHub Actions does. An exclude entry removes the
// combinations that match all of its values. An include entry adds its new parameters to every
// combination whose values it does not change. If there is no such combination, the entry becomes a
// new combination.
func (r *matrixReader) choose(exclude, include *yaml.Node) {
	excludes := r.entries(exclude, "exclude")
	includes := r.entries(include, "include")
	if r.fails {
		return
	}
	m := &r.m
	m.combine(excludes, includes)
	m.cross()
	m.presence(includes)
	for _, e := range excludes {
		if !e.used {
			r.Warning(e.node.Line, e.node.Column, "", "this exclude entry matches no job")
		}
	}
	for _, e := range includes {
		if e.used && len(e.extra) > 0 && !e.kept {
			r.Warning(e.node.Line, e.node.Column, "to get jobs for every entry, move "+e.extra[0].Name+" into matrix, or into zip with other parameters", "a later include entry overrides this one in every job")
		}
	}
	if at := cmp.Or(exclude, include); m.Count() == 0 {
		text := "exclude removes every job of this matrix"
		if len(r.given.List) > 0 {
			text = "-p and exclude remove every job of this matrix"
		}
		r.fail(at, "", "%s", text)
	}
}

func (m *Matrix) combine(excludes, includes []*entry) {
	if len(excludes) == 0 && len(includes) == 0 {
		return
	}
	n := product(m.axes)
	if len(m.axes) == 0 && len(includes) > 0 {
		n = 0 // without axes, include lists all combinations
	}
	rows := [][]*Param{}
	for i := range n {
		row := m.row(i)
		if len(matching(excludes, row)) > 0 {
			continue
		}
		var extra []*Param // later entries override earlier ones
		for _, e := range matching(includes, row) {
			for _, p := range e.extra {
				if i := slices.IndexFunc(extra, func(q *Param) bool { return q.Name == p.Name }); i >= 0 {
					extra[i] = p
				} else {
					extra = append(extra, p)
				}
			}
		}
		rows = append(rows, append(row, extra...))
		for _, e := range includes {
			e.kept = e.kept || slices.ContainsFunc(e.extra, func(p *Param) bool { return slices.Contains(extra, p) })
		}
	}
	for _, e := range includes {
		if e.used {
			m.record(e.extra...)
			continue
		}
		m.record(e.given...)
		rows = append(rows, slices.Concat(e.given, m.consts))
	}
	m.rows = rows
}

// cross multiplies the combinations by the values of spread. It runs after include: a parameter
// under params has the same values in every combination, so it must not decide which combinations
// an include entry extends.
func (m *Matrix) cross() {
	for _, a := range m.spread {
		if m.axes = append(m.axes, a); m.rows == nil {
			continue
		}
		rows := [][]*Param{}
		for _, row := range m.rows {
			for _, p := range a.values[0] {
				rows = append(rows, append(slices.Clip(row), p))
			}
		}
		m.rows = rows
	}
	m.spread = nil
}

func (m *Matrix) record(values ...*Param) {
	for _, p := range values {
		m.values[p.Name] = append(m.values[p.Name], p)
	}
}

// matching returns the entries that match a combination, and marks them as used.
func matching(entries []*entry, row []*Param) (list []*entry) {
	for _, e := range entries {
		if !slices.ContainsFunc(e.agrees, func(want *Param) bool {
			p := find(row, want.Name)
			return p == nil || canonical(p) != canonical(want)
		}) {
			e.used = true
			list = append(list, e)
		}
	}
	return list
}

// entries reads a list of mappings from parameters to values.
func (r *matrixReader) entries(n *yaml.Node, what string) []*entry {
	if source.IsNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "write [{name: value}]", "%s must be a list of mappings, not %s", what, source.Describe(n))
		return nil
	}
	var list []*entry
	for _, item := range n.Content {
		e := &entry{node: item}
		ok := r.Pairs(item, "an entry of "+what, func(k, v *yaml.Node) { r.entryValue(e, k, v, what) })
		if !ok {
			r.fails = true
		}
		if !e.other {
			list = append(list, e)
		}
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
	if find(r.m.consts, name) != nil || slices.ContainsFunc(r.m.spread, func(a axis) bool { return a.names[0] == name }) {
		r.fail(k, "remove it here, or move it from params to matrix", "%s: %q is in params and has the same value in every job", what, name)
		return
	}
	names := r.m.names()
	if g := r.given.of(name); g != nil {
		switch {
		case slices.Contains(names, name):
			e.other = e.other || !slices.ContainsFunc(g.values, func(q *Param) bool { return canonical(q) == canonical(p) })
		case len(g.values) > 1:
			r.fail(v, "set it to a single value", "-p %s=%s: only %s entries set %[1]s", name, g.Text, what)
		default:
			p = g.copies()[0]
		}
	}
	e.given = append(e.given, p)
	if slices.Contains(names, name) {
		e.agrees = append(e.agrees, p)
		return
	}
	if what == "exclude" && r.loose {
		return
	}
	if what == "exclude" {
		r.fail(k, source.DidYouMean(name, names, "use only parameters of the matrix"), "exclude: the matrix has no parameter %q", name)
		return
	}
	if r.m.at[name] == nil && !r.declare(k) {
		return
	}
	e.extra = append(e.extra, p)
}

// presence determines which parameters every expansion has, and which only some have.
func (m *Matrix) presence(includes []*entry) {
	names := m.names()
	for _, p := range m.consts {
		names = append(names, p.Name)
	}
	for _, e := range includes {
		for _, p := range e.extra {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	for _, n := range names {
		if slices.ContainsFunc(m.rows, func(row []*Param) bool { return find(row, n) == nil }) {
			m.Partial = append(m.Partial, n)
		} else {
			m.Always = append(m.Always, n)
		}
	}
}
