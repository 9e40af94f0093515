package expand

import (
	"slices"
)

// An axis is one dimension of a matrix: a parameter, or several that are zipped. Each
// of its points gives every one of its parameters a value.
type axis struct {
	names  []string
	points [][]*Param
}

// A Matrix is all expansions of one job of the file. They share the values of parameters.
type Matrix struct {
	Rows    [][]*Param        // the parameters of each expansion
	Always  []string          // parameters that every expansion has, in order
	Partial []string          // parameters that only some have
	Reach   map[string]VarSet // which of {name} and {work_dir} each parameter's values contain

	axes   []axis
	consts []*Param            // params: the same in every expansion
	values map[string][]*Param // every value that each parameter has anywhere
}

// Single returns the matrix of a job without parameters.
func Single() *Matrix { return &Matrix{Rows: [][]*Param{nil}} }

// A Param is one parameter of a job, its value spelled as in the file.
type Param struct {
	Name string
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
	made *Text  // the value, if it refers to variables
}

// size returns the number of points of the product.
func (m *Matrix) size() int {
	n := 1
	for _, a := range m.axes {
		n *= max(1, len(a.points))
		if n > MaxJobs {
			return MaxJobs + 1
		}
	}
	return n
}

// product returns the combinations of all axes, the last one fastest, with the constants.
func (m *Matrix) product() [][]*Param {
	rows, axes := [][]*Param{nil}, m.axes
	if len(m.consts) > 0 {
		axes = append(slices.Clip(axes), axis{points: [][]*Param{m.consts}})
	}
	for _, a := range axes {
		longer := make([][]*Param, 0, len(rows)*len(a.points))
		for _, row := range rows {
			for _, point := range a.points {
				longer = append(longer, slices.Concat(row, point))
			}
		}
		rows = longer
	}
	return rows
}

// Values returns the variables of the i-th expansion; run-time variables stay as names.
func (m *Matrix) Values(i int, name string) *Values {
	return &Values{Params: m.Rows[i], Name: name}
}

// names returns the parameters of all axes.
func (m *Matrix) names() (names []string) {
	for _, a := range m.axes {
		names = append(names, a.names...)
	}
	return names
}

// Named returns the parameters that distinguish expansions.
func (m *Matrix) Named() []string {
	names := m.names()
	for _, n := range slices.Concat(m.Always, m.Partial) {
		if !slices.Contains(names, n) && find(m.consts, n) == nil {
			names = append(names, n)
		}
	}
	return names
}

// Made returns the values of a parameter that refer to variables.
func (m *Matrix) Made(name string) (texts []*Text) {
	for _, p := range m.values[name] {
		if p.made != nil {
			texts = append(texts, p.made)
		}
	}
	return texts
}

// Formatted calls f for every rendered value of a parameter until it returns false.
func (m *Matrix) Formatted(name string, f func(Param) bool) {
	if len(m.Made(name)) == 0 {
		for _, p := range m.values[name] {
			if !f(*p) {
				return
			}
		}
		return
	}
	for i, row := range m.Rows {
		if p := find(row, name); p != nil && !f(m.Values(i, "").resolve(p)) {
			return
		}
	}
}

// Mates returns the parameters zipped with a parameter, and the number of its values. For
// one set only by include entries, any other parameter may be a mate.
func (m *Matrix) Mates(name string) (names []string, values int) {
	for _, a := range m.axes {
		if slices.Contains(a.names, name) {
			return a.names, len(a.points)
		}
	}
	if find(m.consts, name) != nil {
		return nil, 1
	}
	for _, row := range m.Rows {
		if find(row, name) != nil {
			values++
		}
	}
	return slices.Concat(m.Always, m.Partial), values
}

// find returns the parameter of a name, or nil.
func find(row []*Param, name string) *Param {
	for _, p := range row {
		if p.Name == name {
			return p
		}
	}
	return nil
}
