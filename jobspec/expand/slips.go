package expand

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// This file warns about text that looks like several values but is read as one.

var rangeCall = regexp.MustCompile(`^(?:np\.)?(?:range|arange|linspace)\(.*\)$`)

// valueSlips warns about single values that look like a list or a range.
func (r *matrixReader) valueSlips(name string, list *yaml.Node) {
	among := containsNumbers(list)
	for _, v := range list.Content {
		r.nullSlip(name, v)
		if v.Kind != yaml.ScalarNode || v.Style != 0 || source.IsNumber(v.Value) || isRange(v, false) {
			continue
		}
		words := strings.FieldsFunc(v.Value, func(r rune) bool { return strings.ContainsRune(" \t;，、；", r) })
		switch {
		case len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return !source.IsNumber(w) }):
			r.Warning(v.Line, v.Column, "separate values with commas: "+strings.Join(words, ", ")+"; for a single value, quote it", "%q is a single value of parameter %q, not several", source.Clip(v.Value), name)
		case rangeCall.MatchString(v.Value), among && nearlyRange(v.Value):
			r.Warning(v.Line, v.Column, "for a range, write 0..9, or 0..1..0.1 with a step; for a single value, quote it", "%q is a single value of parameter %q, not a range", source.Clip(v.Value), name)
		}
	}
}

// nullSlip warns about a bare ~ as a value. It means null in YAML, but the shell replaces it.
func (r *matrixReader) nullSlip(name string, v *yaml.Node) {
	if source.IsNull(v) && v.Value == "~" {
		r.Warning(v.Line, v.Column, `for null, write null; for the home folder, "$HOME"`, "parameter %q: the shell replaces ~ with your home folder", name)
	}
}

// nearlyRange reports whether text looks like a range: 1-5, 1 - 5, 0...9 or 1e-5..1e-3.
func nearlyRange(s string) bool {
	for _, sign := range []string{"...", "..", "-"} {
		if from, to, ok := strings.Cut(s, sign); ok {
			a, errA := strconv.ParseFloat(strings.TrimSpace(from), 64)
			b, errB := strconv.ParseFloat(strings.TrimSpace(to), 64)
			return errA == nil && errB == nil && a < b
		}
	}
	return false
}

// oneValueSlip warns about a range where a single value belongs.
func (r *matrixReader) oneValueSlip(name string, v *yaml.Node) {
	if isRange(v, false) {
		r.Warning(v.Line, v.Column, "to try the whole range, move it under matrix; for a single value, quote it", "%q is a single value of parameter %q, not a range", v.Value, name)
	}
}

// containsNumbers reports whether a list has only one value, or contains a number. In other lists,
// text such as the age group 10-19 is not meant as a range.
func containsNumbers(list *yaml.Node) bool {
	return len(list.Content) == 1 || slices.ContainsFunc(list.Content, func(n *yaml.Node) bool { return source.IsNumber(n.Value) })
}
