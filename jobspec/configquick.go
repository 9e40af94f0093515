package jobspec

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
)

// A job's key includes the values of its rendered config. Rendering and parsing a
// whole file for each of thousands of jobs would take seconds, though they differ in
// only a few values. So the first job that changes a given set of keys of a base is
// rendered and parsed in full. If putting its values straight into the base's gives
// the same result, the other jobs take that shortcut. What they run is still rendered
// in full when they start.

// A quickConfig predicts a base with a certain set of keys changed.
type quickConfig struct {
	base   map[string]any           // its values; nil if only rendering can tell
	leaves map[configedit.Value]any // values as the YAML parser reads them
}

// maxLeaves bounds how many parsed values are remembered: parameters of a matrix
// have few.
const maxLeaves = 10_000

// quickName identifies which keys of which base are changed.
func (p *proto) quickName(path string) string {
	name := append([]byte(path), 0)
	for i := range p.config.sets {
		s := &p.config.sets[i]
		name = strconv.AppendBool(name, s.add)
		name = strconv.AppendBool(name, s.place)
		for _, part := range s.path {
			name = append(append(name, part...), 0)
		}
	}
	return string(name)
}

// quickHash returns the hash of a job's config without rendering it, or nil if it
// must be rendered.
func (k *keyer) quickHash(p *proto, v *expand.Values) []byte {
	q := k.quick[p.quickName(k.basePath(p, v))]
	if q == nil || q.base == nil {
		return nil
	}
	values := q.with(p.config.rendered(v, any(q.base)))
	if values == nil {
		return nil
	}
	sum := sha256.Sum256(appendValue(nil, values))
	return sum[:]
}

// learn decides, from a config that was rendered and parsed, whether the others of
// its kind can skip that.
func (k *keyer) learn(p *proto, v *expand.Values, rendered any) {
	path := k.basePath(p, v)
	name := p.quickName(path)
	if k.quick[name] != nil {
		return
	}
	q := &quickConfig{leaves: map[configedit.Value]any{}}
	k.quick[name] = q
	data := k.batch.bases[path]
	if configedit.IsJSON(path) || bytes.IndexByte(data, '&') >= 0 {
		return // an anchor carries the change to other places
	}
	values, err := configedit.Values(path, data)
	base, ok := values.(map[string]any)
	if err != nil || !ok || dotted(base) {
		return
	}
	q.base = base
	if own := q.with(p.config.rendered(v, values)); own == nil || !bytes.Equal(appendValue(nil, own), appendValue(nil, rendered)) {
		q.base = nil
	}
}

// basePath returns the path of the base of a job's config.
func (k *keyer) basePath(p *proto, v *expand.Values) string {
	at := *v
	var err error
	if at.WorkDir, err = p.dirOf(k.workDir, v); err != nil {
		return ""
	}
	path, err := p.config.basePath(&at)
	if err != nil {
		return ""
	}
	return path
}

// dotted reports whether any key has a dot in it, which makes dotted paths ambiguous.
func dotted(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if strings.Contains(key, ".") || dotted(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, dotted)
	}
	return false
}

// with returns the base with some values changed, or nil if that is not straightforward.
func (q *quickConfig) with(sets []configedit.Set) any {
	root := any(q.base)
	for i := range sets {
		var ok bool
		if root, ok = q.put(root, sets[i].Path, &sets[i]); !ok {
			return nil
		}
	}
	return root
}

// put copies the nodes on the way to the value and leaves the base itself unchanged.
func (q *quickConfig) put(at any, path []string, s *configedit.Set) (any, bool) {
	switch at := at.(type) {
	case map[string]any:
		under, there := at[path[0]]
		if !there && !(s.Add && len(path) == 1) {
			return nil, false
		}
		value, ok := q.below(under, path, s)
		out := maps.Clone(at)
		out[path[0]] = value
		return out, ok
	case []any:
		n, err := strconv.Atoi(path[0])
		if err != nil || n < 0 || n >= len(at) {
			return nil, false
		}
		value, ok := q.below(at[n], path, s)
		out := slices.Clone(at)
		out[n] = value
		return out, ok
	}
	return nil, false
}

func (q *quickConfig) below(under any, path []string, s *configedit.Set) (any, bool) {
	if len(path) > 1 {
		return q.put(under, path[1:], s)
	}
	switch under.(type) {
	case map[string]any, []any:
		return nil, false
	}
	return q.leaf(s.Value)
}

// leaf returns a value as the YAML parser reads it.
func (q *quickConfig) leaf(p configedit.Value) (any, bool) {
	if p.Tag == "" || p.Tag == "!!str" {
		return p.Text, true
	}
	if v, ok := q.leaves[p]; ok {
		return v, true
	}
	v, err := configedit.Values("", []byte(configedit.YAMLText(p, 0)))
	if err != nil {
		return nil, false
	}
	if len(q.leaves) < maxLeaves {
		q.leaves[p] = v
	}
	return v, true
}
