// Package configedit sets values in YAML and JSON config files, by dotted key. The rest of the
// file, including comments, is unchanged.
package configedit

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A Set is one change to a config file.
type Set struct {
	Path      []string // the dotted key, split
	Add       bool     // add the key if it is missing
	Value     Value
	Line, Col int // in the job file
}

// A Value is a single value as spelled in YAML.
type Value struct {
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
}

func (v Value) isText() bool { return v.Tag == "" || v.Tag == "!!str" }

// A format reads and edits one file format. Both formats are parsed into YAML nodes; each defines
// the meaning of Line and Column.
type format interface {
	parse(data []byte) (*yaml.Node, error)
	values(root *yaml.Node) (any, error)
	spell(value Value) (string, error)
	replace(n, parent *yaml.Node, value Value) ([]span, error)
	insert(n *yaml.Node, pair string) ([]span, error)
}

// A span is a range of bytes to replace, with its replacement.
type span struct {
	from, to int
	text     string
}

func applySpans(data []byte, spans []span) []byte {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	at := 0
	for _, s := range spans {
		out = append(append(out, data[at:s.from]...), s.text...)
		at = s.to
	}
	return append(out, data[at:]...)
}

// A File is a parsed config file, from which any number of changed copies can be made.
type File struct {
	Name string // its path, for messages; the extension determines the format

	data []byte
	root *yaml.Node      // nil if the file cannot be parsed; Edit returns the reason
	top  map[string]any  // its values, if the file is a valid mapping
	sure map[string]bool // sets of paths that Edit has changed successfully before
}

var byteOrderMark = []byte("\ufeff")

// Open parses a config file.
func Open(name string, data []byte) *File {
	f := &File{Name: name, data: data, sure: map[string]bool{}}
	format := f.format()
	var err error
	if f.root, err = format.parse(bytes.TrimPrefix(data, byteOrderMark)); err != nil {
		return f
	}
	if values, err := format.values(f.root); err == nil {
		f.top, _ = values.(map[string]any)
	}
	return f
}

func (f *File) format() format {
	if strings.HasSuffix(strings.ToLower(f.Name), ".json") {
		return &jsonFormat{}
	}
	return &yamlFormat{}
}

// Has reports whether the file has a top-level key.
func (f *File) Has(key string) bool {
	_, there := f.top[key]
	return there
}

// Edit returns the file with only the given values changed.
func (f *File) Edit(sets []Set) ([]byte, []source.Problem) {
	text, marked := bytes.CutPrefix(f.data, byteOrderMark)
	e := &edit{file: f, format: f.format(), withText: true, text: text}
	var err error
	if e.root, err = e.format.parse(text); err != nil {
		e.problem(Set{}, "", "%s", err)
	} else {
		e.apply(sets)
	}
	switch {
	case len(e.problems) > 0:
		return nil, e.problems
	case marked:
		return slices.Concat(byteOrderMark, e.text), nil
	}
	return e.text, nil
}

// Values returns the values of the copy that Edit would make, without the parts that no program
// sees: comments, key order, quotes, anchors. They consist of maps with string keys, slices,
// strings, numbers, bools and nil. The first call for a set of paths makes the copy in order to
// report its problems; later calls do not. Values is not safe for concurrent use.
func (f *File) Values(sets []Set) (any, []source.Problem) {
	var paths []string
	for _, s := range sets {
		paths = append(paths, strings.Join(s.Path, "\x00"))
	}
	if all := strings.Join(paths, "\x00\x00"); !f.sure[all] {
		if _, problems := f.Edit(sets); len(problems) > 0 {
			return nil, problems
		}
		f.sure[all] = true
	}
	e := &edit{file: f, format: f.format(), root: f.root}
	e.apply(sets)
	values, err := e.values(sets)
	if err != nil {
		e.problem(Set{}, "", "%s", err)
	}
	for _, back := range slices.Backward(e.undo) {
		back()
	}
	return values, e.problems
}

// values returns the values of the changed tree. It reuses the file's own values of unchanged
// top-level keys, unless the file has anchors or top-level keys that are not text.
func (e *edit) values(sets []Set) (any, error) {
	values := maps.Clone(e.file.top)
	plain := values != nil && !bytes.ContainsRune(e.file.data, '&') // with anchors, a change may affect other places
	for k, v := range source.Each(e.root) {
		changed := slices.ContainsFunc(sets, func(s Set) bool { return strings.HasPrefix(k.Value+".", s.Path[0]+".") })
		if plain = plain && (!changed || k.ShortTag() == "!!str"); plain && changed {
			var err error
			if values[k.Value], err = e.format.values(v); err != nil {
				return nil, err
			}
		}
	}
	if !plain {
		return e.format.values(e.root)
	}
	return values, nil
}
