package agent

import (
	"slices"
	"strings"

	"gpurun/state"
	"gpurun/state/redact"
)

// maxText is the longest string in a document, in bytes. No name, command or message needs more.
const maxText = 4096

// sanitize cleans all strings of a document, because an agent may act on them. Commands mask the
// secrets that they recognize; sanitize also masks strings that look like secrets.
func (s *server) sanitize(v any) any {
	switch v := v.(type) {
	case string:
		text := redact.Text(s.clean(v))
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "…"
		}
		return text
	case []any:
		for i := range v {
			v[i] = s.sanitize(v[i])
		}
	case map[string]any:
		for key, value := range v {
			delete(v, key)
			v[s.Clean(key)] = s.sanitize(value)
		}
	}
	return v
}

// A listing selects the rows of a document's main list.
type listing struct {
	key    string   // the list's key; "" for none
	most   int      // the most rows; 0 for the default
	last   bool     // keep the last rows, not the worst
	states []string // only jobs in these states; nil for all
}

// defaultRows is the default number of rows.
const defaultRows = 50

// cut shortens the document's main list and records how many rows it left out. Other lists keep
// their first rows.
func (l listing) cut(doc map[string]any) map[string]any {
	for key, v := range doc {
		if list, is := v.([]any); is && key != l.key && len(list) > defaultRows {
			doc[key], doc[key+"_left_out"] = list[:defaultRows], len(list)-defaultRows
		}
	}
	list, is := doc[l.key].([]any)
	if !is {
		return doc
	}
	all := len(list)
	if l.states != nil {
		list = slices.DeleteFunc(list, func(row any) bool { return !slices.Contains(l.states, stateOf(row)) })
	}
	most := l.most
	if most <= 0 {
		most = defaultRows
	}
	switch {
	case len(list) <= most:
	case l.last:
		list = list[len(list)-most:]
	default:
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b any) int { return rank(a) - rank(b) })
		list = list[:most]
	}
	doc[l.key], doc["left_out"] = list, all-len(list)
	return doc
}

func stateOf(row any) string {
	job, _ := row.(map[string]any)
	state, _ := job["state"].(string)
	return state
}

// rank orders jobs by how much they need attention.
func rank(row any) int {
	p := state.Phase(stateOf(row))
	switch {
	case strings.TrimSpace(string(p)) == "", p == state.Succeeded, p == state.UpToDate, p == state.NotNeeded, p == state.Pruned:
		return 3
	case p == state.Pending, p == state.Waiting:
		return 2
	case p == state.Running:
		return 1
	}
	return 0
}
