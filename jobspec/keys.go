package jobspec

import (
	"slices"
	"strings"

	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
	"gpurun/jobspec/words"

	"gopkg.in/yaml.v3"
)

// canonicalKeys gives a job's mapping canonical keys and refuses unknown ones.
func canonicalKeys(s *source.Source, n *yaml.Node, what string) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Tag: "!!map"}
	spelt := map[string]*yaml.Node{}
	empty := "" // the last key that needs a mapping and has no value
	s.Pairs(n, what, func(k, v *yaml.Node) {
		word := k.Value
		if own, ok := words.Same[word]; ok {
			word = own
		}
		if !slices.Contains(words.Job, word) && !slices.Contains(words.List, word) {
			hint := keyHint(k.Value, v)
			if empty != "" {
				hint = "if it belongs to " + empty + ", indent it more than " + empty
			}
			s.Problem(k.Line, k.Column, hint, "unknown key %q in %s", k.Value, what)
			return
		}
		if empty = ""; source.IsNull(v) && slices.Contains(words.Mappings, word) {
			empty = word
		}
		if first := spelt[word]; first != nil {
			s.Problem(k.Line, k.Column, "keep only one", "%q and %q (line %d) mean the same", k.Value, first.Value, first.Line)
			return
		}
		spelt[word] = k
		words.HomeSlip(s, word, v)
		own := *k
		own.Value = word
		out.Content = append(out.Content, &own, v)
	})
	return out
}

// overlay lays a job over the defaults: mappings merge key by key, everything else
// replaces, null removes. Where null is a value (config.set) it stays.
func overlay(under, over *yaml.Node, nulls bool) *yaml.Node {
	out := *over
	out.Content = nil
	for k, v := range source.Each(under) {
		mine := source.Child(over, k.Value)
		switch {
		case mine == nil:
			mine = v
		case mine.Kind == yaml.MappingNode && v.Kind == yaml.MappingNode:
			mine = overlay(v, mine, nulls || k.Value == "set")
		}
		if nulls || !source.IsNull(mine) {
			out.Content = append(out.Content, k, mine)
		}
	}
	for k, v := range source.Each(over) {
		if source.Child(under, k.Value) == nil && (nulls || !source.IsNull(v)) {
			out.Content = append(out.Content, k, v)
		}
	}
	return &out
}

// ourKeys are all words that may begin a line of a job file.
func ourKeys() []string {
	return slices.Concat(words.Top, words.Job, words.List, settings.Names())
}

// keyHint answers a word that is not a job key.
func keyHint(word string, v *yaml.Node) string {
	if hint := words.ForeignHint(word, v); hint != "" {
		return hint
	}
	if n := source.Nearest(word, slices.Concat(words.Job, words.List, []string{"command", "depends_on"})); n != "" {
		return "did you mean \"" + n + "\"?"
	}
	if slices.Contains(settings.Names(), word) {
		return "it is a setting: move it under settings"
	}
	return "valid keys: " + strings.Join(words.Job, ", ")
}
