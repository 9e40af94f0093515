package expand

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A Given is a parameter set on the command line: -p lr=0.1, -p seed=1,2,3 or -p seed=0..4.
type Given struct {
	Name   string
	Text   string // as typed
	values []*Param
}

// Givens are all parameters set on the command line.
type Givens struct {
	List  []*Given
	known *[]string // names of the parameters of all jobs read so far
}

// ParseGivens parses KEY=VALUE arguments and reports invalid ones. VALUE may be several values,
// separated by commas. A comma in quotes is part of a value.
func ParseGivens(texts []string, out *source.Report) Givens {
	givens := Givens{known: new([]string)}
	for _, text := range texts {
		g, err := parseGiven(text)
		if err == nil && givens.of(g.Name) != nil {
			err = source.Faultf("separate its values with commas", "%q is set twice", g.Name)
		}
		if err != nil {
			out.Add(source.Problem{File: "-p " + text}.Because(err))
			continue
		}
		givens.List = append(givens.List, g)
	}
	return givens
}

func parseGiven(text string) (*Given, error) {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return nil, source.Faultf("write -p "+text+"=VALUE", "has no value")
	case !identifier.MatchString(name):
		return nil, source.Faultf("write -p KEY=VALUE, as in -p seed=1,2,3", "invalid parameter name %q", name)
	}
	g := &Given{Name: name, Text: value}
	seen := map[string]bool{}
	for _, n := range givenValues(value) {
		list := []*Param{{Name: name, Text: n.Value, Tag: n.ShortTag()}}
		if isRange(n, false) {
			var err error
			if list, err = expandRange(n.Value, name); err != nil {
				return nil, err
			}
		}
		for _, p := range list {
			if p.Tag == "!!timestamp" || p.Tag == "!!merge" || p.Text == "" {
				p.Tag = "!!str"
			}
			if seen[canonical(p)] {
				return nil, source.Faultf("keep only one", "duplicate value %q", p.Text)
			}
			seen[canonical(p)] = true
		}
		g.values = append(g.values, list...)
	}
	return g, nil
}

// givenValues splits text at commas outside quotes. A quoted value is always text.
func givenValues(text string) (list []*yaml.Node) {
	from, quote := 0, byte(0)
	add := func(s string) {
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSpace(s)}
		if v := n.Value; len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			n.Value, n.Style, n.Tag = v[1:len(v)-1], yaml.DoubleQuotedStyle, "!!str"
		}
		list = append(list, n)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && strings.TrimSpace(text[from:i]) == "":
			quote = c
		case c == ',':
			add(text[from:i])
			from = i + 1
		}
	}
	add(text[from:])
	return list
}

// of returns the Given of a parameter, or nil.
func (l Givens) of(name string) *Given {
	if i := slices.IndexFunc(l.List, func(g *Given) bool { return g.Name == name }); i >= 0 {
		return l.List[i]
	}
	return nil
}

// Any reports whether a job has any of the parameters.
func (l Givens) Any(m *Matrix) bool {
	return slices.ContainsFunc(l.List, func(g *Given) bool { return slices.Contains(m.Always, g.Name) || slices.Contains(m.Partial, g.Name) })
}

// Texts returns the parameters as typed, by name; nil if there are none.
func (l Givens) Texts() map[string]string {
	if len(l.List) == 0 {
		return nil
	}
	texts := map[string]string{}
	for _, g := range l.List {
		texts[g.Name] = g.Text
	}
	return texts
}

// copies returns copies of the values. Each job needs its own, because references in a value are
// resolved for one job.
func (g *Given) copies() []*Param {
	list := make([]*Param, len(g.values))
	for i, p := range g.values {
		list[i] = &Param{Name: p.Name, Text: p.Text, Tag: p.Tag}
	}
	return list
}

// meet records that a job has a parameter.
func (l Givens) meet(name string) {
	if l.known != nil && !slices.Contains(*l.known, name) {
		*l.known = append(*l.known, name)
	}
}

// ReportUnused reports parameters that no job has.
func (l Givens) ReportUnused(out *source.Report) {
	for _, g := range l.List {
		if slices.Contains(*l.known, g.Name) {
			continue
		}
		hint := "these jobs have no parameters: add matrix or params"
		if len(*l.known) > 0 {
			hint = source.DidYouMean(g.Name, *l.known, "parameters: "+strings.Join(*l.known, ", "))
		}
		out.Add(source.Problem{File: "-p " + g.Name + "=" + g.Text, Text: "no job has a parameter \"" + g.Name + "\"", Hint: hint})
	}
}

// group adds parameters that vary together, as one axis. Parameters set on the command line become
// axes of their own. Points that are then identical are merged; twice is the number of points that
// this removes.
func (r *matrixReader) group(names []string, lists [][]*Param, what string) (twice int) {
	left := axis{}
	for i, name := range names {
		g := r.given.of(name)
		switch {
		case g == nil:
			left.names, left.values = append(left.names, name), append(left.values, lists[i])
		case len(g.values) > 1:
			r.fails = true
			r.Out.Add(source.Problem{File: "-p " + name + "=" + g.Text, Text: "\"" + name + "\" varies together with other parameters of " + what, Hint: "set it to a single value"})
		default:
			r.m.axes = append(r.m.axes, axis{[]string{name}, [][]*Param{g.copies()}})
		}
	}
	if len(left.names) == 0 {
		return 0
	}
	if len(left.names) < len(names) || what == "sample" {
		twice = left.distinct()
	}
	r.m.axes = append(r.m.axes, left)
	return twice
}

// distinct removes points of an axis that equal an earlier one, and returns their number.
func (a *axis) distinct() (removed int) {
	seen := map[string]bool{}
	values := make([][]*Param, len(a.values))
	for i := range a.size() {
		id := ""
		for _, list := range a.values {
			id += canonical(list[i]) + "\x00"
		}
		if seen[id] {
			removed++
			continue
		}
		seen[id] = true
		for k, list := range a.values {
			values[k] = append(values[k], list[i])
		}
	}
	a.values = values
	return removed
}
