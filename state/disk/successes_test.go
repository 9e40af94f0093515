package disk

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What counts is the last success of a key that was not forgotten, whatever came after it.
func TestSuccesses(t *testing.T) {
	dir := t.TempDir()
	lines := `{"kind":"run","version":1,"git_commit":"one"}
{"kind":"start","job":"a","key":"k1","uni_id":"u1","attempt":1,"log":"/l"}
{"kind":"run","version":1,"git_commit":"two"}
{"kind":"end","job":"a","key":"k1","uni_id":"u1","state":"succeeded","metrics":{"acc":0.5,"t":{"x":"NaN"}},"measured":{"acc":"rule"},"log_to_bytes":7}
{"kind":"end","job":"a","key":"k1","uni_id":"u2","state":"failed","metrics":{"acc":0.1}}
broken "state":"succeeded"
{"job":"b","key":"k2","kind":"end","state":"succeeded","uni_id":"u3"}
{"kind":"end","job":"c","key":"k3","uni_id":"u4","state":"succeeded"}
{"kind":"forget","job":"c","key":"k3"}
{"kind":"later","key":"k1"}
{"kind":"end","key":"k4","uni_id":"u5","state":"succ`
	if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	last, given, err := Successes(dir)
	if err != nil || len(last) != 2 || len(given) != 1 || given[0] != nil {
		t.Fatalf("got %v, %v", last, err)
	}
	a := last["k1"]
	Decode([]*Success{nil, a})
	if a == nil || a.UniID != "u1" || !reflect.DeepEqual(a.Metrics, Metrics{[]string{"acc", "t.x"}, []any{0.5, "NaN"}}) || a.Measured["acc"] != "rule" || a.Run.Commit != "one" {
		t.Errorf("got %+v", a)
	}
	if start, end := a.Lines(dir); start.Log != "/l" || end.LogTo != 7 {
		t.Errorf("got the lines %+v, %+v", start, end)
	}
	b := last["k2"]
	if b == nil || b.Run.Commit != "two" {
		t.Fatalf("got %+v for a line in another order", b)
	}
	if start, end := b.Lines(dir); start.Kind != "" || end.Job != "b" {
		t.Errorf("got the lines %+v, %+v where the ledger lacks the start", start, end)
	}
	if last, _, err := Successes(filepath.Join(dir, "none")); len(last) > 0 || err != nil {
		t.Errorf("got %v, %v without a ledger", last, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(strings.Repeat("x", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if last, _, err := Successes(dir); len(last) > 0 || err != nil {
		t.Errorf("got %v, %v from a line without an end", last, err)
	}
}

// What is read without a JSON parser is what the parser reads.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{`{"acc":0.5,"loss":1e-3}`, `{"a,b":1}`, `{":1,b":3}`, `{"":1}`, `{"a":"1,\"b\":2"}`, `{"a":{"b":1}}`, `{"a":1,"a":2}`, `{"a":0x1}`, `{}`} {
		f.Add(text, "acc")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		var all map[string]float64
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&all) != nil || !utf8.ValidString(text) {
			return // it gets valid values
		}
		var compact bytes.Buffer
		_ = json.Compact(&compact, []byte(text)[:d.InputOffset()])
		m, ok := numbers(compact.Bytes(), []string{name})
		if !ok {
			return
		}
		got := map[string]float64{}
		for i, name := range m.Names {
			got[name] = m.Values[i].(float64)
		}
		if len(m.Names) != len(m.Values) || !maps.Equal(got, all) {
			t.Errorf("got %v, want %v", got, all)
		}
	})
}
