package configedit

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A comparison tells how the edited document may differ from the original.
type comparison struct {
	changed map[*yaml.Node]Value
	grown   *yaml.Node // this one has an additional key
	rest    []string   // path of the new value below grown
	value   Value
}

func (c *comparison) same(a, b *yaml.Node) bool {
	if want, ok := c.changed[a]; ok {
		return is(b, want) && (a.Anchor == b.Anchor || a.Kind == yaml.AliasNode)
	}
	if a == c.grown {
		a, b = c.without(a, b)
	}
	if b == nil || a.Kind != b.Kind || a.Value != b.Value || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind == yaml.ScalarNode && a.ShortTag() != b.ShortTag() {
		return false
	}
	for i := range a.Content {
		if !c.same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// without removes the new key from b, and turns a null a into a mapping. It returns a
// nil b if the new key does not lead to the new value.
func (c *comparison) without(a, b *yaml.Node) (*yaml.Node, *yaml.Node) {
	leaf, at := b, -1
	for depth, key := range c.rest {
		if leaf.Kind != yaml.MappingNode || depth > 0 && len(leaf.Content) != 2 {
			return a, nil
		}
		i := 0
		for i < len(leaf.Content) && leaf.Content[i].Value != key {
			i += 2
		}
		if i == len(leaf.Content) {
			return a, nil
		}
		if depth == 0 {
			at = i
		}
		leaf = leaf.Content[i+1]
	}
	if !is(leaf, c.value) {
		return a, nil
	}
	rest := *b
	rest.Content = slices.Delete(slices.Clone(b.Content), at, at+2)
	if a.Kind == yaml.ScalarNode {
		return &yaml.Node{Kind: yaml.MappingNode, Anchor: a.Anchor}, &rest
	}
	return a, &rest
}

// is reports whether n is the value that was to be written.
func is(n *yaml.Node, v Value) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	if v.Tag == "" || v.Tag == "!!str" {
		return n.Value == v.Text && n.ShortTag() == "!!str"
	}
	return sameNumber(n.Value, v.Text) || strings.EqualFold(n.Value, v.Text) || v.Tag == "!!null" && n.ShortTag() == "!!null"
}
