package configedit

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/source"
)

// A File is a config file as read, of which any number of changed copies can be made.
type File struct {
	Name string // its path: for messages, and the extension tells the format

	data   []byte
	values any // nil if it cannot be parsed: Edit tells why
	direct bool
}

// Open parses a config file.
func Open(name string, data []byte) *File {
	f := &File{Name: name, data: data}
	f.values, _ = parseValues(name, data)
	// An anchor carries a change to other places, and a dot in a key makes paths ambiguous.
	root, ok := f.values.(map[string]any)
	f.direct = ok && !ambiguous(root) && (isJSON(name) || bytes.IndexByte(data, '&') < 0)
	return f
}

// Has reports whether the file has a key at its top.
func (f *File) Has(key string) bool {
	top, _ := f.values.(map[string]any)
	_, there := top[key]
	return there
}

// Values returns the values of the copy that Edit makes, without what no program sees:
// comments, key order, quotes, anchors. They consist of maps by string, slices, strings,
// numbers, bools and nil. Mostly the changes can be put straight into the file's own values,
// which matters to matrices with thousands of copies.
func (f *File) Values(sets []Set) (any, []source.Problem) {
	if f.direct {
		values, ok := f.values, true
		for i := range sets {
			if ok {
				values, ok = f.put(values, sets[i].Path, &sets[i])
			}
		}
		if ok {
			return values, nil
		}
	}
	data, problems := f.Edit(sets)
	if len(problems) > 0 {
		return nil, problems
	}
	values, err := parseValues(f.Name, data)
	if err != nil {
		return nil, []source.Problem{{Text: "config " + f.Name + ": " + err.Error()}}
	}
	return values, nil
}

// ambiguous reports whether any key has a dot in it, or is not text.
func ambiguous(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if strings.ContainsAny(key, ".\x00") || ambiguous(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, ambiguous)
	}
	return false
}

// put returns at with one value changed, or false if that is not straightforward. It leaves
// at itself as it is.
func (f *File) put(at any, path []string, s *Set) (any, bool) {
	if len(path) == 0 {
		switch at.(type) {
		case map[string]any, []any:
			return nil, false
		}
		return f.parsed(s.Value)
	}
	switch at := at.(type) {
	case map[string]any:
		under, there := at[path[0]]
		if !there && !s.Add {
			return nil, false
		}
		value, ok := f.put(under, path[1:], s)
		out := maps.Clone(at)
		out[path[0]] = value
		return out, ok
	case []any:
		n, err := strconv.Atoi(path[0])
		if err != nil || n < 0 || n >= len(at) {
			return nil, false
		}
		value, ok := f.put(at[n], path[1:], s)
		out := slices.Clone(at)
		out[n] = value
		return out, ok
	case nil:
		value, ok := f.put(nil, path[1:], s)
		return map[string]any{path[0]: value}, ok && s.Add
	}
	return nil, false
}

// parsed returns a value as a parser of the format reads it.
func (f *File) parsed(v Value) (any, bool) {
	if v.Tag == "" || v.Tag == "!!str" {
		return v.Text, true
	}
	text, err := yamlText(v, 0), error(nil)
	if isJSON(f.Name) {
		text, err = jsonText(v)
	}
	if err != nil {
		return nil, false
	}
	value, err := parseValues(f.Name, []byte(text))
	return value, err == nil
}
