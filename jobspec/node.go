package jobspec

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxNodes is the most that a document may grow to through its aliases.
const maxNodes = 2_000_000

// resolve puts every alias's target in its place, merges "<<", and refuses what
// merely looks right: duplicate keys, keys that are no text, unknown tags, and a
// document that its aliases blow up. Afterwards there are only mappings,
// sequences and scalars; subtrees may be shared. false after a problem that
// forbids to go on.
func (s *source) resolve(root *yaml.Node) bool {
	w := &resolver{source: s, size: map[*yaml.Node]int{}}
	total := w.visit(root)
	if !w.failed && total > maxNodes && total > 20*len(w.size) {
		s.problem(root.Line, root.Column, "write the repeated part as defaults, or as a matrix", "its aliases blow %d values up to more than %d", len(w.size), maxNodes)
		return false
	}
	return !w.failed
}

type resolver struct {
	*source
	size   map[*yaml.Node]int // after aliases; -1 while it is being looked at
	failed bool
}

// visit resolves n in place and counts what it grows to.
func (w *resolver) visit(n *yaml.Node) int {
	if size, ok := w.size[n]; ok {
		return size
	}
	w.size[n] = -1
	total := 1
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			if w.size[c.Alias] == -1 {
				w.problem(c.Line, c.Column, "", "%q stands inside what it means", "*"+c.Value)
				w.failed = true
				return 1
			}
			c = c.Alias
			n.Content[i] = c
		}
		total = min(total+w.visit(c), 1<<40)
		if w.failed {
			return 1
		}
	}
	switch n.Kind {
	case yaml.MappingNode:
		w.mapping(n)
	case yaml.ScalarNode:
		w.scalarTag(n)
	}
	w.size[n] = total
	return total
}

func (w *resolver) scalarTag(n *yaml.Node) {
	switch tag := n.ShortTag(); {
	case tag == "!!str", n.Style&yaml.TaggedStyle == 0:
	default:
		w.problem(n.Line, n.Column, fmt.Sprintf("quote it: %q", n.Tag+" "+n.Value), "the YAML tag %q means nothing here", n.Tag)
	}
}

// mapping checks the keys of n and takes in what it merges.
func (w *resolver) mapping(n *yaml.Node) {
	at := make(map[string]*yaml.Node, len(n.Content)/2)
	own := make([]*yaml.Node, 0, len(n.Content))
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch first := at[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			w.problem(k.Line, k.Column, quoteHint(k), "a key must be text, and this is %s", describe(k))
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
		case first != nil:
			w.problem(k.Line, k.Column, "keep one of them", "duplicate key %q, first on line %d", k.Value, first.Line)
		default:
			at[k.Value] = k
			own = append(own, k, v)
		}
	}
	n.Content = own
	for _, m := range merges {
		w.merge(n, m, at)
	}
}

func (w *resolver) merge(n, from *yaml.Node, at map[string]*yaml.Node) {
	switch from.Kind {
	case yaml.SequenceNode:
		for _, m := range from.Content {
			w.merge(n, m, at)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(from.Content); i += 2 {
			if k := from.Content[i]; at[k.Value] == nil {
				at[k.Value] = k
				n.Content = append(n.Content, k, from.Content[i+1])
			}
		}
	default:
		w.problem(from.Line, from.Column, "", "%q takes a mapping or a list of mappings, and this is %s", "<<", describe(from))
	}
}

// describe says what a node is, as a newcomer would.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return fmt.Sprintf("%s, true or false", n.Value)
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	return fmt.Sprintf("the text %q", clip(n.Value))
}

// quoteHint is the fix for what YAML reads as a mapping because it was not
// quoted: {seed}, or {seed}: 1.
func quoteHint(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0 || len(n.Content) != 2 {
		return ""
	}
	k, v := n.Content[0], n.Content[1]
	if k.Kind == yaml.ScalarNode && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null" {
		return fmt.Sprintf("quote it: %q", "{"+k.Value+"}")
	}
	if inner := quoteHint(k); inner != "" && v.ShortTag() == "!!null" {
		return strings.NewReplacer(`"{`, `"{{`, `}"`, `}}"`).Replace(inner)
	}
	return ""
}

// scalar is the text of a node that must be one value, with its tag.
func (s *source) scalar(n *yaml.Node, what string) (text, tag string, ok bool) {
	if n.Kind != yaml.ScalarNode {
		hint := quoteHint(n)
		s.problem(n.Line, n.Column, hint, "%s takes one value, and this is %s", what, describe(n))
		return "", "", false
	}
	if strings.IndexByte(n.Value, 0) >= 0 {
		s.problem(n.Line, n.Column, "take it out", "%s has a NUL character in it, which no command, path or variable can have", what)
		return "", "", false
	}
	tag = n.ShortTag()
	if tag == "!!timestamp" || tag == "!!merge" {
		tag = "!!str"
	}
	return n.Value, tag, true
}

// items are the nodes of a list, or the one node that stands for a list of one.
func (s *source) items(n *yaml.Node, what string) []*yaml.Node {
	switch n.Kind {
	case yaml.ScalarNode:
		return []*yaml.Node{n}
	case yaml.SequenceNode:
		if len(n.Content) == 0 {
			s.problem(n.Line, n.Column, "leave the key out", "%s is an empty list", what)
		}
		return n.Content
	}
	s.problem(n.Line, n.Column, quoteHint(n), "%s takes a list, and this is %s", what, describe(n))
	return nil
}

// pairs calls f for each key of a mapping, in the file's order.
func (s *source) pairs(n *yaml.Node, what string, f func(k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		s.problem(n.Line, n.Column, "", "%s takes a mapping (name: value), and this is %s", what, describe(n))
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i], n.Content[i+1])
	}
	return true
}

// child is the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
