package uniid

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// An entry is gpurun's record of one attempt.
type entry struct {
	PID        int
	State      string
	RetryCount int    // attempt - 1
	ErrorType  string // "" for none
}

// A record is one entry of the file with all its fields.
type record map[string]json.RawMessage

// A change is what a script did to one entry; from is nil if the entry is new.
type change struct {
	id       string
	from, to json.RawMessage
}

func parse(data []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(data)) == 0 {
		return all, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if all == nil {
		return nil, errors.New("is not a JSON object") // text is null
	}
	for id, raw := range all { // encode equal entries as equal bytes
		var buf bytes.Buffer
		if err := json.Compact(&buf, raw); err != nil {
			return nil, err
		}
		all[id] = buf.Bytes()
	}
	return all, nil
}

// merge merges changes and gpurun's entries into the content of a file. A change applies only if
// the entry is missing, or still as it was before the change. changed is false if the content
// already includes them all. An error means that the content does not parse.
func merge(data []byte, mine map[string]entry, changes []change) (text []byte, changed bool, err error) {
	all, err := parse(data)
	if err != nil {
		return nil, false, err
	}
	for _, c := range changes {
		if raw := all[c.id]; !bytes.Equal(raw, c.to) && (raw == nil || bytes.Equal(raw, c.from)) {
			all[c.id], changed = c.to, true
		}
	}
	for id, e := range mine {
		if raw, c := e.into(all[id]); c {
			all[id], changed = raw, true
		}
	}
	if !changed {
		return data, false, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(all)
	return buf.Bytes(), true, err
}

// into completes an attempt's entry. It keeps the pid and the error type that a script has written
// and, while the attempt runs, the end.
func (e entry) into(raw json.RawMessage) (json.RawMessage, bool) {
	var r record
	if json.Unmarshal(raw, &r) != nil || r == nil {
		r = record{}
	}
	changed := false
	set := func(field string, value any, over bool) {
		text, _ := json.Marshal(value)
		if old, there := r[field]; !there || over && !bytes.Equal(old, text) {
			r[field], changed = text, true
		}
	}
	if e.PID != 0 {
		set("pid", e.PID, false)
	}
	set("state", e.State, e.State != running || !r.ended())
	set("retry_count", e.RetryCount, false)
	if e.ErrorType != "" {
		set("error_type", e.ErrorType, r.text("error_type") == "")
	}
	if !changed {
		return raw, false
	}
	text, _ := json.Marshal(r)
	return text, true
}

// ended reports whether the entry has an end, written by gpurun or a script.
func (r record) ended() bool {
	state := r.text("state")
	return state == normal || state == abnormal
}

// text returns a field's string, or "" if it is missing or of another type.
func (r record) text(field string) string {
	var s string
	_ = json.Unmarshal(r[field], &s)
	return s
}

// difference returns the entries of now that differ from before, in the order of their
// ids; nil if either does not parse.
func difference(before, now []byte) []change {
	is, err := parse(now)
	if err != nil {
		return nil
	}
	was, err := parse(before)
	if err != nil {
		return nil
	}
	var list []change
	for _, id := range slices.Sorted(maps.Keys(is)) {
		if !bytes.Equal(was[id], is[id]) {
			list = append(list, change{id, was[id], is[id]})
		}
	}
	return list
}
