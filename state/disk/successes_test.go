package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	last, runs, err := Successes(dir)
	if err != nil || len(runs) != 2 || len(last) != 2 {
		t.Fatalf("got %v, %v, %v", last, runs, err)
	}
	a := last["k1"]
	if a == nil || a.UniID != "u1" || a.Metrics["acc"] != 0.5 || a.Measured["acc"] != "rule" || a.LogTo != 7 || runs[a.Run].Commit != "one" {
		t.Errorf("got %+v", a)
	}
	if start, ok := StartOf(dir, a); !ok || start.Log != "/l" {
		t.Errorf("got the start %+v, %v", start, ok)
	}
	b := last["k2"]
	if b == nil || runs[b.Run].Commit != "two" {
		t.Fatalf("got %+v for a line in another order", b)
	}
	if _, ok := StartOf(dir, b); ok {
		t.Error("got a start that the ledger lacks")
	}
	if last, runs, err := Successes(filepath.Join(dir, "none")); len(last)+len(runs) > 0 || err != nil {
		t.Errorf("got %v, %v, %v without a ledger", last, runs, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ledgerName), []byte(strings.Repeat("x", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if last, _, err := Successes(dir); len(last) > 0 || err != nil {
		t.Errorf("got %v, %v from a line without an end", last, err)
	}
}
