package configedit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A finding is the result of following a path: a value or, if there is none, the deepest existing
// node on the path.
type finding struct {
	node, parent *yaml.Node
	rest         []string // keys missing below node
}

// find follows a path. It also finds keys that contain dots.
func (e *edit) find(s Set) (finding, bool) {
	f := finding{node: e.root, rest: s.Path}
	for len(f.rest) > 0 {
		n := f.node
		done := strings.Join(s.Path[:len(s.Path)-len(f.rest)], ".")
		switch {
		case n.Kind == yaml.AliasNode:
			return f, e.problem(s, "", "%q is the alias *%s: setting it would change other values too", done, n.Value)
		case source.IsNull(n) && s.Add:
			return f, true
		case n.Kind == yaml.ScalarNode && !source.IsNull(n):
			return f, e.problem(s, "", "%q is a value, not a mapping, so it has no %q", done, strings.Join(f.rest, "."))
		}
		next, used, twice := child(n, f.rest)
		switch {
		case twice:
			return f, e.problem(s, "keep only one", "duplicate key %q", strings.Join(s.Path, "."))
		case next == nil && n.Kind == yaml.MappingNode && (s.Add || len(f.rest) == 1 && e.merged(n, f.rest[0])):
			return f, true
		case next == nil:
			word := strings.Join(s.Path, ".")
			return f, e.problem(s, source.DidYouMean(word, dotted(e.root, "", nil), fmt.Sprintf("to add it, write %q", "+"+word)), "no key %q", word)
		}
		f = finding{node: next, parent: n, rest: f.rest[used:]}
	}
	return f, true
}

// merged reports whether a mapping gets a key from "<<".
func (e *edit) merged(n *yaml.Node, key string) bool {
	values, _ := e.format.values(n)
	pairs, _ := values.(map[string]any)
	_, ok := pairs[key]
	return ok
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

// aliasOf returns the last alias within at that refers to n, or nil.
func aliasOf(n, at *yaml.Node) (last *yaml.Node) {
	if at.Kind == yaml.AliasNode && at.Alias == n {
		return at
	}
	for _, item := range at.Content {
		last = cmp.Or(aliasOf(n, item), last)
	}
	return last
}
