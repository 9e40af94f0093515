package agent

import (
	"slices"
	"strings"

	"gpurun/state"
	"gpurun/state/redact"
)

// maxText bounds one text of a document: no name, command or message needs more.
const maxText = 4096

// tidy makes everything in a document fit for a reader that believes what it reads. Commands have hidden
// the secrets that they know; here, what looks like one.
func (s *server) tidy(v any) any {
	switch v := v.(type) {
	case string:
		return shorten(redact.Text(s.clean(v)))
	case []any:
		for i := range v {
			v[i] = s.tidy(v[i])
		}
	case map[string]any:
		for key, value := range v {
			delete(v, key)
			v[s.Clean(key)] = s.tidy(value)
		}
	}
	return v
}

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// A listing says how much of a document's list is shown.
type listing struct {
	key    string   // of the list; "" shows all
	most   int      // 0 for the usual number
	last   bool     // the last ones, else the first, bad ones before others
	states []string // only jobs in these states; nil for all
}

// usual is how many rows a list has unless the caller says otherwise.
const usual = 50

// cut shortens the document's list, and says how much is left out. Other lists have their first
// rows: nobody reads a thousand warnings.
func (l listing) cut(doc map[string]any) map[string]any {
	for key, v := range doc {
		if list, is := v.([]any); is && key != l.key && len(list) > usual {
			doc[key], doc[key+"_left_out"] = list[:usual], len(list)-usual
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
		most = usual
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

// rank orders jobs by how much they need a look.
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
