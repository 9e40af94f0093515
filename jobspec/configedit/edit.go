package configedit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// An edit applies changes to the tree of a file and, if withText is set, to its text.
type edit struct {
	file     *File
	format   format
	root     *yaml.Node
	withText bool
	text     []byte
	undo     []func() // restores the tree
	problems []source.Problem
}

func (e *edit) problem(s Set, hint, format string, args ...any) bool {
	text := "config " + e.file.Name + ": " + fmt.Sprintf(format, args...)
	e.problems = append(e.problems, source.Problem{Line: s.Line, Col: s.Col, Text: text, Hint: hint})
	return false
}

// apply makes all changes. It first changes existing values, in one pass, and then adds missing
// keys.
func (e *edit) apply(sets []Set) {
	var spans []span
	var later []Set
	changed := map[*yaml.Node]*yaml.Node{}
	for _, s := range sets {
		word := strings.Join(s.Path, ".")
		f, ok := e.find(s)
		_, twice := changed[f.node]
		switch {
		case !ok:
		case len(f.rest) > 0:
			later = append(later, s)
		case f.node.Kind == yaml.MappingNode || f.node.Kind == yaml.SequenceNode:
			e.problem(s, "set its values one by one", "%q is not a single value", word)
		case aliasOf(f.node, e.root) != nil:
			e.problem(s, "replace the alias on that line with its value", "%q has the anchor &%s, which line %d also uses", word, f.node.Anchor, aliasOf(f.node, e.root).Line)
		case twice:
			e.problem(s, "keep only one", "%q is set twice", word)
		default:
			value, err := e.node(s.Value)
			if err == nil && f.node.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(f.node.Tag, "!!") {
				value.Tag, value.Style = f.node.Tag, yaml.TaggedStyle // keep a program's own tag
			}
			var more []span
			if err == nil && e.withText {
				more, err = e.format.replace(f.node, f.parent, s.Value)
			}
			e.check(s, err)
			spans, changed[f.node] = append(spans, more...), value
		}
	}
	if len(e.problems) > 0 {
		return
	}
	for n, value := range changed {
		e.put(n, *value)
	}
	if len(changed) > 0 && !e.swap(sets[0], spans) {
		return
	}
	for _, s := range later {
		if !e.add(s) {
			return
		}
	}
}

// add inserts one missing key.
func (e *edit) add(s Set) bool {
	f, ok := e.find(s)
	if !ok {
		return false
	}
	if len(f.rest) == 0 { // an earlier set has added it
		return e.problem(s, "keep only one", "%q is set twice", strings.Join(s.Path, "."))
	}
	var spans []span
	value, err := e.node(s.Value)
	if err == nil && e.withText {
		spans, err = e.format.insert(f.node, e.pair(f.rest, s.Value))
	}
	if !e.check(s, err) {
		return false
	}
	for _, key := range slices.Backward(f.rest[1:]) {
		value = mapping(nil, key, value)
	}
	e.put(f.node, *mapping(f.node.Content, f.rest[0], value))
	return e.swap(s, spans)
}

// pair spells a nested key with its value: a: {b: 1}.
func (e *edit) pair(keys []string, v Value) string {
	text, _ := e.format.spell(v)
	for i, key := range slices.Backward(keys) {
		word, _ := e.format.spell(Value{Text: key})
		if text = word + ": " + text; i > 0 {
			text = "{" + text + "}"
		}
	}
	return text
}

func mapping(pairs []*yaml.Node, key string, value *yaml.Node) *yaml.Node {
	pairs = append(slices.Clip(pairs), textNode(key), value)
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: pairs}
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// node returns a value as a parser of the format would.
func (e *edit) node(v Value) (*yaml.Node, error) {
	if v.isText() {
		return textNode(v.Text), nil
	}
	other := e.file.format()
	text, err := other.spell(v)
	if err != nil {
		return nil, err
	}
	return other.parse([]byte(text))
}

func (e *edit) check(s Set, err error) bool {
	return err == nil || e.problem(s, "", "%q: %s", strings.Join(s.Path, "."), err)
}

// put changes one node of the tree.
func (e *edit) put(n *yaml.Node, to yaml.Node) {
	old := *n
	e.undo = append(e.undo, func() { *n = old })
	*n = to
}

// swap changes the text, and reports a problem if the values of the new text differ from those of
// the changed tree.
func (e *edit) swap(s Set, spans []span) bool {
	if !e.withText {
		return true
	}
	want, err := e.format.values(e.root)
	if err != nil {
		return e.problem(Set{}, "", "%s", err)
	}
	e.text = applySpans(e.text, spans)
	var got any
	if e.root, err = e.format.parse(e.text); err == nil {
		got, err = e.format.values(e.root)
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		return e.problem(s, "simplify that value in the file", "setting %q would also change other values", strings.Join(s.Path, "."))
	}
	return true
}
