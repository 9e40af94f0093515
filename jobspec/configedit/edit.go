// Package configedit reads config files, YAML or JSON, and replaces values in them by dotted
// key. Everything else stays as it was written, comments included.
package configedit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A Set is one change to a config file.
type Set struct {
	Path      []string // the dotted key, split
	Add       bool     // the key may be missing
	Value     Value
	Line, Col int // in the job file
}

// A Value is a single value as spelled in YAML.
type Value struct {
	Text string
	Tag  string // YAML's short tag: !!str, !!int, !!float, !!bool, !!null
}

// A format reads and edits one format. Both formats are read as the nodes of a YAML
// document; the positions in them are the format's own business.
type format interface {
	parse(data []byte) (*yaml.Node, error)
	replace(n, parent *yaml.Node, value Value) ([]span, error)
	insert(n *yaml.Node, keys []string, value Value) ([]span, error)
}

// A span is a piece of text to replace, in bytes.
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

func isJSON(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".json") }

type edit struct {
	name     string
	format   format
	data     []byte
	root     *yaml.Node
	later    []Set // keys to add, one after another
	problems []source.Problem
}

// Edit changes the named values and nothing else.
func (f *File) Edit(sets []Set) ([]byte, []source.Problem) {
	e := &edit{name: f.Name, format: &yamlFormat{}}
	if isJSON(f.Name) {
		e.format = &jsonFormat{}
	}
	var bom bool
	e.data, bom = bytes.CutPrefix(f.data, []byte("\ufeff"))
	var err error
	if e.root, err = e.format.parse(e.data); err != nil {
		e.problem(Set{}, "", "%s", err)
	} else if e.change(sets) {
		for _, s := range e.later {
			if !e.add(s) {
				break
			}
		}
	}
	if len(e.problems) > 0 {
		return nil, e.problems
	}
	if bom {
		e.data = append([]byte("\ufeff"), e.data...)
	}
	return e.data, nil
}

func (e *edit) problem(s Set, hint, format string, args ...any) bool {
	text := "config " + e.name + ": " + fmt.Sprintf(format, args...)
	e.problems = append(e.problems, source.Problem{Line: s.Line, Col: s.Col, Text: text, Hint: hint})
	return false
}

// change replaces all values that exist, in one pass.
func (e *edit) change(sets []Set) bool {
	var spans []span
	changed := map[*yaml.Node]Value{}
	for _, s := range sets {
		word := strings.Join(s.Path, ".")
		f, ok := e.find(s)
		switch {
		case !ok:
		case len(f.rest) > 0:
			e.later = append(e.later, s)
		case f.node.Kind == yaml.MappingNode || f.node.Kind == yaml.SequenceNode:
			e.problem(s, "set the values in it", "%q is not a single value", word)
		case aliasOf(f.node, e.root) != nil:
			e.problem(s, "write the value out on that line", "%q is &%s, which line %d also uses", word, f.node.Anchor, aliasOf(f.node, e.root).Line)
		default:
			if _, twice := changed[f.node]; twice {
				e.problem(s, "keep only one", "%q is set twice", word)
				continue
			}
			more, err := e.format.replace(f.node, f.parent, s.Value)
			if err != nil {
				e.problem(s, "", "%q: %s", word, err)
			}
			spans, changed[f.node] = append(spans, more...), s.Value
		}
	}
	if len(e.problems) > 0 || len(spans) == 0 {
		return len(e.problems) == 0
	}
	return e.swap(sets[0], applySpans(e.data, spans), comparison{changed: changed})
}

// aliasOf returns the last alias below at that refers to n, or nil.
func aliasOf(n, at *yaml.Node) (last *yaml.Node) {
	if at.Kind == yaml.AliasNode && at.Alias == n {
		return at
	}
	for _, item := range at.Content {
		last = cmp.Or(aliasOf(n, item), last)
	}
	return last
}

// add inserts one key that is missing.
func (e *edit) add(s Set) bool {
	f, ok := e.find(s)
	if !ok {
		return false
	}
	if len(f.rest) == 0 { // an earlier set has added it
		return e.problem(s, "keep only one", "%q is set twice", strings.Join(s.Path, "."))
	}
	spans, err := e.format.insert(f.node, f.rest, s.Value)
	if err != nil {
		return e.problem(s, "", "%q: %s", strings.Join(s.Path, "."), err)
	}
	return e.swap(s, applySpans(e.data, spans), comparison{grown: f.node, rest: f.rest, value: s.Value})
}

// swap accepts the new text if it parses to what was asked for.
func (e *edit) swap(s Set, data []byte, c comparison) bool {
	root, err := e.format.parse(data)
	if err != nil || !c.same(e.root, root) {
		return e.problem(s, "write that value in a simpler form in the file", "%q cannot be set without changing something else", strings.Join(s.Path, "."))
	}
	e.data, e.root = data, root
	return true
}

// A finding is where a path leads: a value, or the deepest node that exists.
type finding struct {
	node, parent *yaml.Node
	rest         []string // keys missing below node
}

// find follows a path. A key that itself contains dots is found too.
func (e *edit) find(s Set) (finding, bool) {
	f := finding{node: e.root, rest: s.Path}
	for len(f.rest) > 0 {
		n := f.node
		done := strings.Join(s.Path[:len(s.Path)-len(f.rest)], ".")
		switch {
		case n.Kind == yaml.AliasNode:
			return f, e.problem(s, "", "%q is *%s, which is shared: setting it would change other values too", done, n.Value)
		case source.IsNull(n) && s.Add:
			return f, true
		case n.Kind == yaml.ScalarNode && !source.IsNull(n):
			return f, e.problem(s, "", "%q is a value, not a mapping: it has no %q", done, strings.Join(f.rest, "."))
		}
		next, used, twice := child(n, f.rest)
		switch {
		case twice:
			return f, e.problem(s, "keep only one", "duplicate key %q", strings.Join(s.Path, "."))
		case next == nil && n.Kind == yaml.MappingNode && (s.Add || len(f.rest) == 1 && slices.Contains(mergedKeys(n, 0), f.rest[0])):
			return f, true
		case next == nil:
			word := strings.Join(s.Path, ".")
			return f, e.problem(s, source.DidYouMean(word, dotted(e.root, "", nil), fmt.Sprintf("to add it, write %q", "+"+word)), "no key %q", word)
		}
		f = finding{node: next, parent: n, rest: f.rest[used:]}
	}
	return f, true
}

func child(n *yaml.Node, path []string) (next *yaml.Node, used int, twice bool) {
	if n.Kind == yaml.SequenceNode {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, 0, false
		}
		return n.Content[i], 1, false
	}
	for used = 1; used <= len(path); used++ {
		word := strings.Join(path[:used], ".")
		for k, v := range source.Each(n) {
			if k.Kind != yaml.ScalarNode || k.Value != word {
				continue
			}
			if next != nil {
				return nil, 0, true
			}
			next = v
		}
		if next != nil {
			return next, used, false
		}
	}
	return nil, 0, false
}

// mergedKeys returns the keys that a mapping gets through "<<".
func mergedKeys(n *yaml.Node, depth int) []string {
	var keys []string
	for k, from := range source.Each(n) {
		switch {
		case depth == 8:
		case k.ShortTag() != "!!merge":
			if depth > 0 {
				keys = append(keys, k.Value)
			}
		case from.Kind == yaml.SequenceNode:
			for _, item := range from.Content {
				keys = append(keys, mergedKeys(cmp.Or(item.Alias, item), depth+1)...)
			}
		default:
			keys = append(keys, mergedKeys(cmp.Or(from.Alias, from), depth+1)...)
		}
	}
	return keys
}

// dotted lists the dotted keys of all values below n.
func dotted(n *yaml.Node, prefix string, list []string) []string {
	const most = 5000
	for i, item := range n.Content {
		word := prefix + strconv.Itoa(i)
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			word = prefix + n.Content[i-1].Value
		}
		if len(list) < most {
			list = dotted(item, word+".", append(list, word))
		}
	}
	return list
}
