package redact

import (
	"reflect"
	"strings"
)

// identifiers are the keys of a document whose values are kept, because programs identify jobs and
// files by them.
var identifiers = map[string]bool{
	"name": true, "job": true, "jobs": true, "running": true, "needs": true, "key": true, "id": true, "uni_id": true,
	"file": true, "files": true, "path": true, "log": true, "stderr": true, "snapshot": true, "work_dir": true, "state_dir": true,
}

// Document returns a version of doc that is safe to show to other users. It applies hide to all text
// except identifiers, and masks values with secret names. The result and doc share the parts that
// contain no secrets.
func Document[T any](doc T, hide func(string) string) T {
	w := walker{hide, map[reflect.Type][]bool{}}
	if v, changed := w.walk(reflect.ValueOf(&doc).Elem()); changed {
		return v.Interface().(T)
	}
	return doc
}

type walker struct {
	hide func(string) string
	open map[reflect.Type][]bool // which fields of a struct may contain secrets
}

var text = reflect.TypeFor[string]()

// walk returns a value without secrets, and whether it differs from the original.
func (w *walker) walk(v reflect.Value) (out reflect.Value, changed bool) {
	// first returns the copy of v, which it makes when the first part of v changes.
	first := func(copy func() reflect.Value) reflect.Value {
		if !changed {
			out, changed = copy(), true
		}
		return out
	}
	switch v.Kind() {
	case reflect.String:
		if v.Type() == text {
			s := w.hide(v.String())
			return reflect.ValueOf(s), s != v.String()
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			break
		}
		if x, other := w.walk(v.Elem()); other {
			if v.Kind() == reflect.Interface {
				return x, true
			}
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(x)
			return p, true
		}
	case reflect.Struct:
		for i, open := range w.fields(v.Type()) {
			if !open {
				continue
			}
			if x, other := w.walk(v.Field(i)); other {
				first(func() reflect.Value { c := reflect.New(v.Type()).Elem(); c.Set(v); return c }).Field(i).Set(x)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if x, other := w.walk(v.Index(i)); other {
				first(func() reflect.Value { return reflect.AppendSlice(reflect.Zero(v.Type()), v) }).Index(i).Set(x)
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			x, other := w.walk(at.Value())
			if at.Value().Type() == text {
				if s := Value(at.Key().String(), x.String()); s != x.String() {
					x, other = reflect.ValueOf(s), true
				}
			}
			if other {
				first(func() reflect.Value {
					c := reflect.MakeMapWithSize(v.Type(), v.Len())
					for k, e := range v.Seq2() {
						c.SetMapIndex(k, e)
					}
					return c
				}).SetMapIndex(at.Key(), x)
			}
		}
	}
	if !changed {
		out = v
	}
	return out, changed
}

// fields returns which fields of a struct may contain secrets.
func (w *walker) fields(t reflect.Type) []bool {
	if w.open[t] == nil {
		open := make([]bool, t.NumField())
		for i := range open {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			open[i] = t.Field(i).IsExported() && !(identifiers[name] && isNames(t.Field(i).Type))
		}
		w.open[t] = open
	}
	return w.open[t]
}

// isNames reports whether values of a type are strings or lists of strings, as names are.
func isNames(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.String
}
