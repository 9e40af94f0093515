package agent

import (
	"slices"
	"strings"
	"unicode/utf8"

	"gpurun/state/redact"
	"gpurun/state/schema"
)

// maxText bounds one text of a document: no name, command or message needs more.
const maxText = 4096

// named are the maps whose keys are names that people gave to values.
var named = []string{"params", "settings", "metrics", "env"}

// tidy makes everything in a document fit for a reader that believes what it reads.
func (s *server) tidy(secrets []string, doc any) any {
	t := tidier{s, redact.Hiding(secrets)}
	return t.tidy("", doc)
}

// secrets finds the secret values in the maps of a document. of is the key that v stands under.
func secrets(of string, v any) (found []string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			found = append(found, secrets(of, x)...)
		}
	case map[string]any:
		values := map[string]string{}
		for key, value := range v {
			if text, is := value.(string); is && slices.Contains(named, of) {
				values[key] = text
			}
			found = append(found, secrets(key, value)...)
		}
		found = append(found, redact.Secrets(values)...)
	}
	return found
}

// tidier tidies one document.
type tidier struct {
	*server
	hide func(string) string
}

func (t *tidier) tidy(of string, v any) any {
	switch v := v.(type) {
	case string:
		return shorten(t.hide(t.clean(v)))
	case []any:
		for i := range v {
			v[i] = t.tidy(of, v[i])
		}
	case map[string]any:
		for key, value := range v {
			name := t.Clean(key)
			if text, is := value.(string); is && slices.Contains(named, of) {
				value = redact.Value(name, t.clean(text))
			}
			delete(v, key)
			v[name] = t.tidy(name, value)
		}
	}
	return v
}

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
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
	state := schema.State(stateOf(row))
	switch {
	case strings.TrimSpace(string(state)) == "", state == schema.Succeeded, state == schema.UpToDate, state == schema.NotNeeded:
		return 3
	case state == schema.Pending, state == schema.Waiting:
		return 2
	case state == schema.Running:
		return 1
	}
	return 0
}
