package source

import (
	"fmt"
	"iter"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxNodes bounds the size of a document after its aliases are expanded.
const maxNodes = 2_000_000

// Resolve replaces every alias with its target, merges "<<", and refuses what the parser accepts
// but gpurun does not: duplicate keys, keys that are not text, unknown tags, and a document that
// grows too large through aliases. Afterwards there are only mappings, sequences and scalars;
// subtrees may be shared. It returns false if the document is unusable.
func (s *Source) Resolve(root *yaml.Node) bool {
	w := &resolver{Source: s, size: map[*yaml.Node]int{}}
	total := w.visit(root)
	if !w.failed && total > maxNodes && total > 20*len(w.size) {
		s.Problem(root.Line, root.Column, "move the repeated part to defaults, or use a matrix", "aliases expand %d values to more than %d", len(w.size), maxNodes)
		return false
	}
	return !w.failed
}

type resolver struct {
	*Source
	size   map[*yaml.Node]int // with aliases expanded; -1 while being computed
	failed bool
}

// visit resolves n in place and returns its expanded size.
func (w *resolver) visit(n *yaml.Node) int {
	if size, ok := w.size[n]; ok {
		return size
	}
	w.size[n] = -1
	total := 1
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			if w.size[c.Alias] == -1 {
				w.Problem(c.Line, c.Column, "", "alias %q refers to itself", "*"+c.Value)
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
		if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != "!!str" {
			w.Problem(n.Line, n.Column, fmt.Sprintf("quote it: %q", n.Tag+" "+n.Value), "unsupported YAML tag %q", n.Tag)
		}
	}
	w.size[n] = total
	return total
}

// mapping checks the keys of n and merges what "<<" refers to.
func (w *resolver) mapping(n *yaml.Node) {
	at := make(map[string]*yaml.Node, len(n.Content)/2)
	own := make([]*yaml.Node, 0, len(n.Content))
	var merges []*yaml.Node
	for k, v := range Each(n) {
		switch first := at[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			w.Problem(k.Line, k.Column, QuoteHint(k), "a key must be text, not %s", Describe(k))
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
		case first != nil:
			w.Problem(k.Line, k.Column, "keep only one", "duplicate key %q, first on line %d", k.Value, first.Line)
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
		for k, v := range Each(from) {
			if at[k.Value] == nil {
				at[k.Value] = k
				n.Content = append(n.Content, k, v)
			}
		}
	default:
		w.Problem(from.Line, from.Column, "", "%q must be a mapping or a list of mappings, not %s", "<<", Describe(from))
	}
}

// Describe names a node's kind in plain words.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "an empty value"
	case "!!bool":
		return fmt.Sprintf("the boolean %s", n.Value)
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	return fmt.Sprintf("the text %q", Clip(n.Value))
}

// QuoteHint returns the fix for unquoted text that YAML reads as a mapping: {seed}, or {seed}: 1.
func QuoteHint(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0 || len(n.Content) != 2 {
		return ""
	}
	k, v := n.Content[0], n.Content[1]
	if k.Kind == yaml.ScalarNode && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null" {
		return fmt.Sprintf("quote it: %q", "{"+k.Value+"}")
	}
	if inner := QuoteHint(k); inner != "" && v.ShortTag() == "!!null" {
		return strings.NewReplacer(`"{`, `"{{`, `}"`, `}}"`).Replace(inner)
	}
	return ""
}

// Scalar returns the text and the tag of a node, which must be a single value.
func (s *Source) Scalar(n *yaml.Node, what string) (text, tag string, ok bool) {
	if n.Kind != yaml.ScalarNode {
		hint := QuoteHint(n)
		s.Problem(n.Line, n.Column, hint, "%s must be a single value, not %s", what, Describe(n))
		return "", "", false
	}
	if strings.IndexByte(n.Value, 0) >= 0 {
		s.Problem(n.Line, n.Column, "remove it", "%s contains a NUL character, which commands, paths and variables cannot contain", what)
		return "", "", false
	}
	tag = n.ShortTag()
	if tag == "!!timestamp" || tag == "!!merge" {
		tag = "!!str"
	}
	return n.Value, tag, true
}

// Items returns the elements of a list; a single value counts as a list of one.
func (s *Source) Items(n *yaml.Node, what string) []*yaml.Node {
	switch n.Kind {
	case yaml.ScalarNode:
		return []*yaml.Node{n}
	case yaml.SequenceNode:
		if len(n.Content) == 0 {
			s.Problem(n.Line, n.Column, "remove the key", "%s is an empty list", what)
		}
		return n.Content
	}
	s.Problem(n.Line, n.Column, QuoteHint(n), "%s must be a list, not %s", what, Describe(n))
	return nil
}

// Texts returns the elements of a list as text.
func (s *Source) Texts(n *yaml.Node, what string) (texts []string) {
	for _, item := range s.Items(n, what) {
		if text, _, ok := s.Scalar(item, what); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// Pairs calls f for each key of a mapping, in the file's order.
func (s *Source) Pairs(n *yaml.Node, what string, f func(k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		s.Problem(n.Line, n.Column, "", "%s must be a mapping (name: value), not %s", what, Describe(n))
		return false
	}
	for k, v := range Each(n) {
		f(k, v)
	}
	return true
}

// Child returns the value of a mapping's key, or nil.
func Child(n *yaml.Node, key string) *yaml.Node {
	for k, v := range Each(n) {
		if k.Value == key {
			return v
		}
	}
	return nil
}

// Each iterates over the keys and values of a mapping, in the file's order. Other nodes, including
// nil, have none.
func Each(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// IsNull reports whether a node is missing or null, which in most places counts as not given.
func IsNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
