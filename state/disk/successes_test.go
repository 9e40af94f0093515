package disk

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The last success of a key counts, even if other ends followed, unless it was forgotten.
func TestSuccessesAreTheLastOfEachKey(t *testing.T) {
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
{"kind":"end","job":"a","key":"k1","state":"succeeded","by":"done"}
{"kind":"end","key":"k4","uni_id":"u5","state":"succ`
	if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	last, given, err := Successes(dir)
	if err != nil || len(last) != 2 || len(given) != 1 || given[0] != nil {
		t.Fatalf("got %v, %v", last, err)
	}
	a := last["k1"]
	if a == nil || a.UniID != "u1" || !maps.Equal(a.Metrics, map[string]any{"acc": 0.5, "t.x": "NaN"}) || a.Measured["acc"] != "rule" || a.Run.Commit != "one" {
		t.Errorf("got %+v", a)
	}
	if start, end := a.Lines(dir); start.Log != "/l" || end.LogTo != 7 {
		t.Errorf("got lines %+v, %+v", start, end)
	}
	b := last["k2"]
	if b == nil || b.Run.Commit != "two" {
		t.Fatalf("fields in another order: got %+v", b)
	}
	if start, end := b.Lines(dir); start.Kind != "" || end.Job != "b" {
		t.Errorf("the ledger lacks the start: got lines %+v, %+v", start, end)
	}
	if last, _, err := Successes(filepath.Join(dir, "none")); len(last) > 0 || err != nil {
		t.Errorf("no ledger: got %v, %v", last, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(strings.Repeat("x", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if last, _, err := Successes(dir); len(last) > 0 || err != nil {
		t.Errorf("long line without newline: got %v, %v", last, err)
	}
}
