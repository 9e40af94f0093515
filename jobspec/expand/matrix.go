package expand

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// An axis is one dimension of a matrix: a parameter, or several that have the same number of values
// and vary together.
type axis struct {
	names  []string
	values [][]*Param // values of each parameter
}

func (a *axis) size() int { return len(a.values[0]) }

// A Matrix holds all expansions of one job in a file. They share parameter values.
type Matrix struct {
	Always  []string          // parameters that every expansion has, in order
	Partial []string          // parameters that only some expansions have
	Reach   map[string]VarSet // which of {name} and {work_dir} each parameter's values contain

	axes   []axis
	spread []axis                // params with several values from the command line; choose crosses them with the rest
	rows   [][]*Param            // parameters of each expansion, unless they are the product of the axes
	consts []*Param              // params: the same in every expansion
	values map[string][]*Param   // every value of each parameter in any expansion
	at     map[string]*yaml.Node // where each parameter is defined
}

// A Param is one parameter of a job, with its value as spelled in the file.
type Param struct {
	Name string
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
	made *Text  // the parsed value, if it refers to variables
}

// product returns the number of points in the product of axes, or MaxJobs + 1 if there are more than
// MaxJobs.
func product(axes []axis) int {
	n := 1
	for _, a := range axes {
		n *= max(1, a.size())
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
	return product(m.axes)
}

// row returns the parameters of the i-th expansion: those of the axes, then the constants. In the
// product of the axes, the last axis varies fastest.
func (m *Matrix) row(i int) []*Param {
	if m.rows != nil {
		return m.rows[i]
	}
	row := make([]*Param, 0, len(m.Always))
	for _, a := range slices.Backward(m.axes) {
		for _, values := range slices.Backward(a.values) {
			row = append(row, values[i%a.size()])
		}
		i /= a.size()
	}
	slices.Reverse(row)
	return append(row, m.consts...)
}

// Values returns the variables of the i-th expansion. Run-time variables are not replaced.
func (m *Matrix) Values(i int, name string) *Values {
	return &Values{Params: m.row(i), Name: name}
}

// names returns the parameters of all axes.
func (m *Matrix) names() (names []string) {
	for _, a := range m.axes {
		names = append(names, a.names...)
	}
	return names
}

// Named returns the parameters that distinguish expansions from each other.
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

// Formatted calls f for every rendered value of a parameter until f returns false.
func (m *Matrix) Formatted(name string, f func(Param) bool) {
	if len(m.Made(name)) == 0 {
		for _, p := range m.values[name] {
			if !f(*p) {
				return
			}
		}
		return
	}
	for i := range m.Count() {
		v := m.Values(i, "")
		if p := find(v.Params, name); p != nil && !f(v.resolve(p)) {
			return
		}
	}
}

// Points returns the points of a parameter's axis, each with the values of all parameters on the
// axis. If only include entries set the parameter, Points returns the expansions that have it. A
// constant parameter has no points.
func (m *Matrix) Points(name string) (points [][]*Param) {
	for _, a := range m.axes {
		for i := range a.size() {
			if !slices.Contains(a.names, name) {
				break
			}
			point := make([]*Param, len(a.values))
			for n, values := range a.values {
				point[n] = values[i]
			}
			points = append(points, point)
		}
	}
	if len(points) > 0 || find(m.consts, name) != nil {
		return points
	}
	return slices.DeleteFunc(slices.Clone(m.rows), func(row []*Param) bool { return find(row, name) == nil })
}

// At returns where a parameter is defined in the job file. Both results are 0 if that is unknown.
func (m *Matrix) At(name string) (line, col int) {
	if n := m.at[name]; n != nil {
		return n.Line, n.Column
	}
	return 0, 0
}

// find returns the parameter with this name, or nil.
func find(row []*Param, name string) *Param {
	for _, p := range row {
		if p.Name == name {
			return p
		}
	}
	return nil
}
