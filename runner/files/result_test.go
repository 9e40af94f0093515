package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestResult(t *testing.T) {
	num := func(s string) json.Number { return json.Number(s) }
	for _, row := range []struct {
		name, text string
		metrics    map[string]any
		errorType  string
		err        string
	}{
		{"empty", "", nil, "", ""},
		{"one", `{"loss": 0.10}`, map[string]any{"loss": num("0.10")}, "", ""},
		{"later over earlier", "{\"acc\":0.5,\"epoch\":1}\n{\"acc\":0.9}", map[string]any{"acc": num("0.9"), "epoch": num("1")}, "", ""},
		{"side by side", `{"a":1}{"b":2}`, map[string]any{"a": num("1"), "b": num("2")}, "", ""},
		{"oom", `{"error_type": "oom"}`, nil, "oom", ""},
		{"oom and more", "{\"loss\":3}\n{\"error_type\":\"oom\"}", map[string]any{"loss": num("3")}, "oom", ""},
		{"another error_type is a metric", `{"error_type":"bored"}`, map[string]any{"error_type": "bored"}, "", ""},
		{"what Python calls JSON", `{"loss": NaN, "low": -Infinity, "note": "NaN \" Infinity"}`,
			map[string]any{"loss": "NaN", "low": "-Infinity", "note": `NaN " Infinity`}, "", ""},
		{"large integers", `{"samples": 12345678901234567890}`, map[string]any{"samples": num("12345678901234567890")}, "", ""},
		{"torn", "{\"a\":1}\n{\"b\":", map[string]any{"a": num("1")}, "", "object 2"},
		{"no object", "[1]", nil, "", "object 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "result"), row.text)
			metrics, errorType, err := Result(path, "")
			if !reflect.DeepEqual(metrics, row.metrics) || errorType != row.errorType {
				t.Errorf("got %v %q, want %v %q", metrics, errorType, row.metrics, row.errorType)
			}
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got error %v, want %q", err, row.err)
			}
		})
	}
}

func TestResultThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if m, e, err := Result(filepath.Join(dir, "none"), ""); m != nil || e != "" || err != nil {
		t.Errorf("got %v %q %v without a file, want nothing", m, e, err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Result(pipe, ""); err == nil {
		t.Error("got no error for a pipe")
	}
}

func TestResultTooLongForTheLedger(t *testing.T) {
	for _, row := range []struct {
		name      string
		size      int
		errorType string
	}{
		{"a little", maxMetrics, "oom"},
		{"beyond what is read", maxResult, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"error_type":"oom","curve":"` + strings.Repeat("x", row.size) + `"}`
			path, keep := write(t, filepath.Join(dir, "result"), text), filepath.Join(dir, "train.log.metrics")
			metrics, errorType, err := Result(path, keep)
			if want := (map[string]any{MetricsFile: keep}); err != nil || !reflect.DeepEqual(metrics, want) {
				t.Fatalf("got %v %v, want %v", metrics, err, want)
			}
			if errorType != row.errorType {
				t.Errorf("got %q, want %q", errorType, row.errorType)
			}
			if got, err := os.ReadFile(keep); err != nil || string(got) != text {
				t.Errorf("got %d bytes, %v; want the %d of the result file", len(got), err, len(text))
			}
			if _, _, err := Result(path, ""); err == nil {
				t.Error("got no error without a place to keep it")
			}
		})
	}
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"a":1}{"b":NaN}`))
	f.Add([]byte(`{"error_type":"oom","s":"\"-Infinity\\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		metrics, _ := merge(data)
		if _, err := json.Marshal(metrics); err != nil {
			t.Errorf("metrics that no ledger can hold: %v", err)
		}
	})
}
