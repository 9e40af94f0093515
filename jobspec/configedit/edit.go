// Package configedit makes a copy of a YAML or JSON file with some values changed. The file
// is parsed into a tree that knows the position of each value, the text of the named values
// is replaced, and the result is parsed again. Unless that equals the old tree with only the
// named values changed, the edit is refused, so that no quirk of a format can change anything
// else.
package configedit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// A node is a value in a config file, with what an edit needs to know about it.
type node struct {
	kind   kind
	keys   []key   // of a mapping
	items  []*node // of a list, or the values of keys
	tag    string  // of a scalar, YAML's short tag
	value  string  // of a scalar: its decoded text
	name   string  // of an alias: its anchor; of any other node: its own anchor
	line   int
	shared int      // line of an alias that refers to this node, or 0
	merged []string // keys that a mapping gets through "<<"
	at     any      // position data of the format
}

type key struct {
	text string
	at   any
}

type kind uint8

const (
	scalar kind = iota
	mapping
	list
	alias
)

// A format reads and edits one format. Spans are in bytes of data.
type format interface {
	parse(data []byte) (*node, error)
	replace(n *node, parent *node, value Value) ([]span, error)
	insert(n *node, keys []string, value Value) ([]span, error)
}

// A span is a piece of text to replace.
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

func formatOf(name string) format {
	if isJSON(name) {
		return &jsonFormat{}
	}
	return &yamlFormat{}
}

type edit struct {
	name     string
	format   format
	data     []byte
	root     *node
	later    []Set // keys to add, one after another
	problems []source.Problem
}

func (e *edit) problem(s Set, hint, format string, args ...any) bool {
	text := "config " + e.name + ": " + fmt.Sprintf(format, args...)
	e.problems = append(e.problems, source.Problem{Line: s.Line, Col: s.Col, Text: text, Hint: hint})
	return false
}

func (e *edit) read() (ok bool) {
	root, err := e.format.parse(e.data)
	if err != nil {
		return e.problem(Set{}, "", "%s", err)
	}
	e.root = root
	return true
}

// change replaces all values that exist, in one pass.
func (e *edit) change(sets []Set) bool {
	var spans []span
	changed := map[*node]Value{}
	for _, s := range sets {
		f, ok := e.find(s)
		switch {
		case !ok:
		case len(f.rest) > 0:
			e.later = append(e.later, s)
		case f.node.kind == mapping || f.node.kind == list:
			e.problem(s, "set the values in it", "%q is not a single value", strings.Join(s.Path, "."))
		case f.node.shared > 0:
			e.problem(s, "write the value out on that line", "%q is &%s, which line %d also uses", strings.Join(s.Path, "."), f.node.name, f.node.shared)
		default:
			if _, twice := changed[f.node]; twice {
				e.problem(s, "keep only one", "%q is set twice", strings.Join(s.Path, "."))
				continue
			}
			more, err := e.format.replace(f.node, f.parent, s.Value)
			if err != nil {
				e.problem(s, "", "%q: %s", strings.Join(s.Path, "."), err)
			}
			spans, changed[f.node] = append(spans, more...), s.Value
		}
	}
	if len(e.problems) > 0 || len(spans) == 0 {
		return len(e.problems) == 0
	}
	return e.swap(sets[0], applySpans(e.data, spans), comparison{changed: changed})
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
	return e.swap(s, applySpans(e.data, spans), comparison{grown: f.node, key: f.rest[0], rest: f.rest, value: s.Value})
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
	node, parent *node
	rest         []string // keys missing below node
}

// find follows a path. A key that itself contains dots is found too.
func (e *edit) find(s Set) (finding, bool) {
	f := finding{node: e.root, rest: s.Path}
	for len(f.rest) > 0 {
		n := f.node
		done := strings.Join(s.Path[:len(s.Path)-len(f.rest)], ".")
		switch {
		case n.kind == alias:
			return f, e.problem(s, "", "%q is *%s, which is shared: setting it would change other values too", done, n.name)
		case n.kind == scalar && n.tag == "!!null" && s.Add:
			return f, true
		case n.kind == scalar && n.tag != "!!null":
			return f, e.problem(s, "", "%q is a value, not a mapping: it has no %q", done, strings.Join(f.rest, "."))
		}
		next, used, twice := n.child(f.rest)
		switch {
		case twice:
			return f, e.problem(s, "keep only one", "duplicate key %q", strings.Join(s.Path, "."))
		case next == nil && n.kind == mapping && (s.Add || len(f.rest) == 1 && slices.Contains(n.merged, f.rest[0])):
			return f, true
		case next == nil:
			return f, e.missing(s)
		}
		f = finding{node: next, parent: n, rest: f.rest[used:]}
	}
	return f, true
}

func (n *node) child(path []string) (next *node, used int, twice bool) {
	if n.kind == list {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.items) {
			return nil, 0, false
		}
		return n.items[i], 1, false
	}
	for used = 1; used <= len(path); used++ {
		word := strings.Join(path[:used], ".")
		for i, k := range n.keys {
			if k.text == word && next != nil {
				return nil, 0, true
			}
			if k.text == word {
				next = n.items[i]
			}
		}
		if next != nil {
			return next, used, false
		}
	}
	return nil, 0, false
}

func (e *edit) missing(s Set) bool {
	word := strings.Join(s.Path, ".")
	return e.problem(s, source.DidYouMean(word, e.root.dotted("", nil), fmt.Sprintf("to add it, write %q", "+"+word)), "no key %q", word)
}

// dotted lists the dotted keys of all values below n.
func (n *node) dotted(prefix string, list []string) []string {
	const most = 5000
	for i, item := range n.items {
		word := prefix + strconv.Itoa(i)
		if n.kind == mapping {
			word = prefix + n.keys[i].text
		}
		if len(list) < most {
			list = item.dotted(word+".", append(list, word))
		}
	}
	return list
}

// A comparison tells how the edited tree may differ from the original.
type comparison struct {
	changed map[*node]Value
	grown   *node // this one has an additional key
	key     string
	rest    []string // path of the new value below grown
	value   Value
}

func (c *comparison) same(a, b *node) bool {
	if want, ok := c.changed[a]; ok {
		return b.is(want) && (a.name == b.name || a.kind == alias)
	}
	if a == c.grown {
		a, b = c.without(a, b)
	}
	if b == nil || a.kind != b.kind || a.tag != b.tag || a.value != b.value || a.name != b.name || len(a.keys) != len(b.keys) || len(a.items) != len(b.items) {
		return false
	}
	for i := range a.keys {
		if a.keys[i].text != b.keys[i].text {
			return false
		}
	}
	for i := range a.items {
		if !c.same(a.items[i], b.items[i]) {
			return false
		}
	}
	return true
}

// without removes the new key from b, and turns a null a into a mapping. It returns a
// nil b if the new key does not lead to the new value.
func (c *comparison) without(a, b *node) (*node, *node) {
	i := slices.IndexFunc(b.keys, func(k key) bool { return k.text == c.key })
	if i < 0 {
		return a, nil
	}
	leaf := b.items[i]
	for _, key := range c.rest[1:] {
		if leaf.kind != mapping || len(leaf.keys) != 1 || leaf.keys[0].text != key {
			return a, nil
		}
		leaf = leaf.items[0]
	}
	if !leaf.is(c.value) {
		return a, nil
	}
	rest := *b
	rest.keys = slices.Delete(slices.Clone(b.keys), i, i+1)
	rest.items = slices.Delete(slices.Clone(b.items), i, i+1)
	if a.kind == scalar {
		return &node{kind: mapping, name: a.name, tag: rest.tag}, &rest
	}
	return a, &rest
}

// is reports whether n is the value that was to be written.
func (n *node) is(p Value) bool {
	if n.kind != scalar {
		return false
	}
	if p.Tag == "" || p.Tag == "!!str" {
		return n.value == p.Text && n.tag == "!!str"
	}
	return sameNumber(n.value, p.Text) || strings.EqualFold(n.value, p.Text) || p.Tag == "!!null" && n.tag == "!!null"
}
