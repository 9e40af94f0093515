package expand

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Keys are the keys of one job that define its parameters. A key that is not given is nil.
type Keys struct{ Matrix, Zip, Sample, Params *yaml.Node }

// A matrixReader reads matrix, zip, sample and params of one job.
type matrixReader struct {
	*source.Source
	given  Givens // from the command line
	m      Matrix
	envs   map[string]string // GPURUN_PARAM_ name → parameter
	order  []string
	nested map[*Param]bool // values checked for variables
	rowAt  map[*Param]place
	fails  bool
	loose  bool // exclude entries may name parameters that are missing from the axes
}

// A place is the position of a value outside the job file.
type place struct {
	in        *source.Source
	line, col int
}

// Read reads the parameters of a job. Values from the command line replace those in the file. If
// nothing varies, m has a single expansion. If whole is false, a problem was reported, and m holds
// only the names of the parameters.
func Read(s *source.Source, keys Keys, given Givens) (m *Matrix, whole bool) {
	r := &matrixReader{Source: s, given: given, envs: map[string]string{}}
	r.nested, r.rowAt = map[*Param]bool{}, map[*Param]place{}
	r.m.values, r.m.at = map[string][]*Param{}, map[string]*yaml.Node{}
	var include, exclude *yaml.Node
	if n := keys.Matrix; !source.IsNull(n) && n.Kind == yaml.ScalarNode {
		r.fail(n, "for the rows of a file, write matrix: {from: "+n.Value+"}", "matrix must be a mapping (name: values), not %s", source.Describe(n))
	} else if n != nil {
		r.fails = !s.Pairs(n, "matrix", func(k, v *yaml.Node) {
			switch {
			case k.Value == "include":
				include = v
			case k.Value == "exclude":
				exclude = v
			case k.Value == "from" && v.Kind == yaml.ScalarNode && !isRange(v, true):
				r.from(k, v)
			default:
				r.axis(k, v)
			}
		}) || r.fails
	}
	if keys.Zip != nil {
		r.zips(keys.Zip)
	}
	if keys.Sample != nil {
		r.sample(keys.Sample)
	}
	if keys.Params != nil {
		r.constants(keys.Params)
	}
	if r.fails {
		r.loose = true
		r.entries(exclude, "exclude")
		r.entries(include, "include")
		return r.names(), false
	}
	all := slices.Concat(r.m.axes, r.m.spread)
	if product(all) > MaxJobs {
		at := cmp.Or(keys.Matrix, keys.Zip, keys.Sample, keys.Params)
		s.Problem(at.Line, at.Column, "", "the matrix has more than %d million jobs", MaxJobs/1_000_000)
		return r.names(), false
	}
	for _, a := range all {
		for i, name := range a.names {
			r.m.values[name] = slices.Clip(a.values[i])
		}
	}
	r.m.record(r.m.consts...)
	if r.choose(exclude, include); !r.fails {
		r.nest()
	}
	if r.fails {
		return r.names(), false
	}
	return &r.m, true
}

// names returns a matrix without values, which is enough to check the rest of the job.
func (r *matrixReader) names() *Matrix { return &Matrix{Always: r.order} }

func (r *matrixReader) fail(n *yaml.Node, hint, format string, args ...any) {
	r.fails = true
	r.Problem(n.Line, n.Column, hint, format, args...)
}

// Free reports whether a name may be used for a parameter.
func Free(name string) bool {
	return identifier.MatchString(name) && builtin(name) == VarLiteral && name != "include" && name != "exclude"
}

// declare records the name of a new parameter.
func (r *matrixReader) declare(k *yaml.Node) bool {
	return r.declares(k.Value, k, r.Source, k.Line, k.Column)
}

// declares records the name of a new parameter and the node that defines it. It reports an invalid
// name at the given line and column of s.
func (r *matrixReader) declares(name string, at *yaml.Node, s *source.Source, line, col int) bool {
	env := ParamEnv(name)
	fail := func(hint, format string, args ...any) bool {
		r.fails = true
		s.Problem(line, col, hint, format, args...)
		return false
	}
	switch {
	case !identifier.MatchString(name):
		return fail("use letters, digits and _, as in learning_rate", "invalid parameter name %q", name)
	case builtin(name) != VarLiteral:
		return fail("choose another name", "{%s} is a built-in variable", name)
	case name == "include" || name == "exclude":
		return fail("choose another name", "%q is a keyword of matrix", name)
	case r.m.at[name] != nil && s != r.Source:
		return fail("rename one", "duplicate parameter %q, first in %s:%d", name, r.Path, r.m.at[name].Line)
	case r.m.at[name] != nil:
		return fail("", "duplicate parameter %q, first on line %d", name, r.m.at[name].Line)
	case r.envs[env] != "":
		return fail("rename one", "parameters %q and %q would both become %s", r.envs[env], name, env)
	}
	r.m.at[name], r.envs[env] = at, name
	r.order = append(r.order, name)
	r.given.meet(name)
	return true
}

// ParamEnv returns the name of the environment variable with a parameter's value.
func ParamEnv(name string) string { return "GPURUN_PARAM_" + strings.ToUpper(name) }

func (r *matrixReader) axis(k, v *yaml.Node) {
	if k.Value == "zip" && v.Kind == yaml.MappingNode {
		r.fail(k, "align it with matrix", "zip goes next to matrix, not inside it")
		return
	}
	if !r.declare(k) {
		return
	}
	values := r.values(k.Value, v)
	if g := r.given.of(k.Value); g != nil {
		values = g.copies()
	}
	r.m.axes = append(r.m.axes, axis{[]string{k.Value}, [][]*Param{values}})
}

// values reads a list of values or a range.
func (r *matrixReader) values(name string, v *yaml.Node) []*Param {
	if isRange(v, true) {
		return r.ranged(name, v)
	}
	if v.Kind != yaml.SequenceNode {
		hint := source.QuoteHint(v)
		if v.Kind == yaml.ScalarNode {
			draw, hinted := drawOf(v.Value), rangeHint(v.Value)
			if own, _ := ParseDraw(v.Value, name); own != nil {
				draw = v.Value
			}
			switch {
			case draw != "":
				hint = "to draw values, use sample: {n: 20, params: {" + name + ": " + draw + "}}"
			case hinted != "":
				hint = hinted
			case nearlyRange(v.Value):
				hint = "list the values, or draw some with sample"
			case strings.ContainsAny(v.Value, "()") || strings.Contains(v.Value, ".."):
				hint = "list the values: [1, 2, 3]"
			default:
				hint = "write [" + v.Value + "]"
			}
			if name == "from" {
				hint = "to read the rows of a file, write matrix: {from: " + v.Value + "}"
			}
		}
		r.fail(v, hint, "parameter %q must be a list of values, not %s", name, source.Describe(v))
		return nil
	}
	if len(v.Content) == 0 {
		r.fail(v, "give it values, or remove it", "parameter %q is an empty list", name)
	}
	r.valueSlips(name, v)
	list := make([]*Param, 0, len(v.Content))
	for _, item := range v.Content {
		switch {
		case isRange(item, false):
			list = append(list, r.ranged(name, item)...)
		case item.Kind == yaml.ScalarNode:
			list = append(list, r.value(name, item))
		case item.Kind == yaml.SequenceNode:
			r.fail(item, "write one flat list; to combine values, use zip or include", "a value of parameter %q is a list", name)
		default:
			r.fail(item, cmp.Or(source.QuoteHint(item), "to combine values, use zip or include"), "a value of parameter %q is a mapping", name)
		}
	}
	return list
}

func (r *matrixReader) ranged(name string, v *yaml.Node) []*Param {
	list, err := expandRange(v.Value, name)
	if err != nil {
		r.fails = true
		r.Out.Add(source.Problem{File: r.Path, Line: v.Line, Col: v.Column}.Because(err))
	}
	return list
}

func (r *matrixReader) value(name string, n *yaml.Node) *Param {
	text, tag, ok := r.Scalar(n, "parameter "+name)
	if !ok {
		r.fails = true
	}
	return &Param{Name: name, Text: text, Tag: tag}
}

func (r *matrixReader) zips(zip *yaml.Node) {
	groups := []*yaml.Node{zip}
	if zip.Kind == yaml.SequenceNode {
		groups = zip.Content
		if len(groups) == 0 {
			r.fail(zip, "remove it", "zip is an empty list")
		}
	}
	for _, g := range groups {
		var names []string
		var lists [][]*Param
		ok := r.Pairs(g, "zip", func(k, v *yaml.Node) {
			if r.declare(k) {
				names = append(names, k.Value)
				lists = append(lists, r.values(k.Value, v))
			}
		})
		if !ok || r.fails || len(lists) == 0 {
			r.fails = r.fails || !ok
			continue
		}
		for i, l := range lists {
			if len(l) != len(lists[0]) {
				r.fail(r.m.at[names[i]], "zipped lists must have equal lengths", "zip: %q has %d values and %q has %d", names[0], len(lists[0]), names[i], len(l))
				return
			}
		}
		r.group(names, lists, "zip")
	}
}

func (r *matrixReader) constants(params *yaml.Node) {
	r.fails = !r.Pairs(params, "params", func(k, v *yaml.Node) {
		if !r.declare(k) {
			return
		}
		if v.Kind == yaml.SequenceNode {
			r.fail(v, "for one job per value, write it under matrix", "parameter %q must be a single value, not a list", k.Value)
			return
		}
		r.oneValueSlip(k.Value, v)
		r.nullSlip(k.Value, v)
		value := r.value(k.Value, v)
		switch g := r.given.of(k.Value); {
		case g == nil:
			r.m.consts = append(r.m.consts, value)
		case len(g.values) == 1:
			r.m.consts = append(r.m.consts, g.copies()...)
		default:
			r.m.spread = append(r.m.spread, axis{[]string{k.Value}, [][]*Param{g.copies()}})
		}
	}) || r.fails
}
