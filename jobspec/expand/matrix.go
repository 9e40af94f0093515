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

// A Matrix is all expansions of one job of the file. The plain product is not stored:
// a job remembers its index in it, and its parameters are computed from that. What
// include changed is stored in odd.
type Matrix struct {
	axes    []axis
	consts  []Param // params: the same in every expansion
	combos  []int32 // the expansions in order: ≥ 0 an index into the product, < 0 odd[-n-1]; nil for the whole product
	odd     [][]Param
	Always  []string // parameters that every expansion has, in order
	Partial []string // parameters that only some have
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

func (m *Matrix) Count() int {
	if m.combos != nil {
		return len(m.combos)
	}
	return m.size()
}

func (m *Matrix) Combo(i int) int32 {
	if m.combos != nil {
		return m.combos[i]
	}
	return int32(i)
}

// Params appends the parameters of one expansion to buf.
func (m *Matrix) params(combo int32, buf []Param) []Param {
	if combo < 0 {
		return append(buf, m.odd[-combo-1]...)
	}
	if len(m.axes) > 0 {
		buf = m.product(len(m.axes)-1, int(combo), buf)
	}
	return append(buf, m.consts...)
}

// product appends the values of axes 0…last at point n of their product.
func (m *Matrix) product(last, n int, buf []Param) []Param {
	a := &m.axes[last]
	if last > 0 {
		buf = m.product(last-1, n/a.size(), buf)
		n %= a.size()
	}
	return append(buf, a.point(n)...)
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
		v = m.Values(m.Combo(i), "", v.Params[:0])
		for _, p := range v.Params {
			if p.Name == name && !f(v.Resolve(p)) {
				return
			}
		}
	}
}

// each calls f for every value a parameter has anywhere, as spelled in the file, until
// it returns false.
func (m *Matrix) each(name string, f func(Param) bool) {
	for i := range m.axes {
		a := &m.axes[i]
		if j := slices.Index(a.names, name); j >= 0 {
			for n := range a.size() {
				if !f(a.point(n)[j]) {
					return
				}
			}
		}
	}
	for _, list := range append([][]Param{m.consts}, m.odd...) {
		for _, v := range list {
			if v.Name == name && !f(v) {
				return
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
	return slices.Concat(m.Always, m.Partial), len(m.odd)
}
