package expand

import (
	"slices"
)

// An axis is one dimension of a matrix: a parameter, or several that are zipped. Each
// of its points gives every one of its parameters a value.
type axis struct {
	names  []string
	values []Param // by point
}

func (a *axis) size() int { return len(a.values) / len(a.names) }

func (a *axis) point(i int) []Param { return a.values[i*len(a.names) : (i+1)*len(a.names)] }

// A Matrix is all expansions of one job of the file. The plain product is not stored: an
// expansion's parameters are computed from its index in it.
type Matrix struct {
	axes    []axis
	consts  []Param   // params: the same in every expansion
	rows    [][]Param // the expansions if include or exclude changed the product, otherwise nil
	Always  []string  // parameters that every expansion has, in order
	Partial []string  // parameters that only some have
	Nested  nestedTexts
	Reach   map[string]VarSet // which of {name} and {work_dir} each parameter's values contain
}

// size returns the number of points of the product.
func (m *Matrix) size() int {
	n := 1
	for i := range m.axes {
		n *= max(1, m.axes[i].size())
		if n > MaxJobs {
			return MaxJobs + 1
		}
	}
	return n
}

// Count returns the number of expansions.
func (m *Matrix) Count() int {
	if m.rows != nil {
		return len(m.rows)
	}
	return m.size()
}

// Values returns the variables of the i-th expansion, with its parameters in buf; run-time
// variables stay as names.
func (m *Matrix) Values(i int, name string, buf []Param) Values {
	v := Values{nested: m.Nested, Name: name}
	if m.rows != nil {
		v.Params = append(buf, m.rows[i]...)
	} else {
		v.Params = append(m.product(len(m.axes)-1, i, buf), m.consts...)
	}
	return v
}

// product appends the values of axes 0…last at point n of their product.
func (m *Matrix) product(last, n int, buf []Param) []Param {
	if last < 0 {
		return buf
	}
	a := &m.axes[last]
	buf = m.product(last-1, n/a.size(), buf)
	return append(buf, a.point(n%a.size())...)
}

// Named returns the parameters that distinguish expansions.
func (m *Matrix) Named() []string {
	var names []string
	for _, a := range m.axes {
		names = append(names, a.names...)
	}
	for _, n := range slices.Concat(m.Always, m.Partial) {
		if !slices.Contains(names, n) && !slices.ContainsFunc(m.consts, func(p Param) bool { return p.Name == n }) {
			names = append(names, n)
		}
	}
	return names
}

// A Param is one parameter of a job, its value spelled as in the file.
type Param struct {
	Name string
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
}

// Formatted calls f for every rendered value of a parameter until it returns false.
func (m *Matrix) Formatted(name string, f func(Param) bool) {
	if m.Nested[name] == nil {
		m.each(name, f)
		return
	}
	var v Values
	for i := range m.Count() {
		v = m.Values(i, "", v.Params[:0])
		for _, p := range v.Params {
			if p.Name == name && !f(v.Resolve(p)) {
				return
			}
		}
	}
}

// each calls f once for every value a parameter has anywhere, as spelled in the file, until
// it returns false.
func (m *Matrix) each(name string, f func(Param) bool) {
	lists := append([][]Param{m.consts}, m.rows...)
	for i := range m.axes {
		if slices.Contains(m.axes[i].names, name) {
			lists[0] = m.axes[i].values
		}
	}
	seen := map[Param]bool{}
	for _, list := range lists {
		for _, p := range list {
			if p.Name == name && !seen[p] {
				if seen[p] = true; !f(p) {
					return
				}
			}
		}
	}
}

// Mates returns the parameters zipped with a parameter, and the number of its values. For
// one set only by include entries, any other parameter may be a mate.
func (m *Matrix) Mates(name string) (names []string, values int) {
	for i := range m.axes {
		if slices.Contains(m.axes[i].names, name) {
			return m.axes[i].names, m.axes[i].size()
		}
	}
	if slices.ContainsFunc(m.consts, func(c Param) bool { return c.Name == name }) {
		return nil, 1
	}
	for _, row := range m.rows {
		if slices.ContainsFunc(row, func(p Param) bool { return p.Name == name }) {
			values++
		}
	}
	return slices.Concat(m.Always, m.Partial), values
}
