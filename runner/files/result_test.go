package files

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestResultMergesObjects(t *testing.T) {
	num := func(s string) json.Number { return json.Number(s) }
	for _, row := range []struct {
		name, text string
		metrics    map[string]any
		errorType  string
		err        string
	}{
		{"empty", "", nil, "", ""},
		{"one object", `{"loss": 0.10}`, map[string]any{"loss": num("0.10")}, "", ""},
		{"later over earlier", "{\"acc\":0.5,\"epoch\":1}\n{\"acc\":0.9}", map[string]any{"acc": num("0.9"), "epoch": num("1")}, "", ""},
		{"two objects on a line", `{"a":1}{"b":2}`, map[string]any{"a": num("1"), "b": num("2")}, "", ""},
		{"oom", `{"error_type": "oom"}`, nil, "oom", ""},
		{"oom and more", "{\"loss\":3}\n{\"error_type\":\"oom\"}", map[string]any{"loss": num("3")}, "oom", ""},
		{"another error_type is a metric", `{"error_type":"bored"}`, map[string]any{"error_type": "bored"}, "", ""},
		{"NaN and infinity, as Python writes them", `{"loss": NaN, "low": -Infinity, "note": "NaN \" Infinity"}`,
			map[string]any{"loss": "NaN", "low": "-Infinity", "note": `NaN " Infinity`}, "", ""},
		{"large integers", `{"samples": 12345678901234567890}`, map[string]any{"samples": num("12345678901234567890")}, "", ""},
		{"incomplete object", "{\"a\":1}\n{\"b\":", map[string]any{"a": num("1")}, "", "object 2"},
		{"not an object", "0.93\n{\"a\":1}\n[1]", map[string]any{"a": num("1")}, "", "value 1 is of type number"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "result"), row.text)
			left, err := Result(path, "", "")
			metrics, errorType := left.Metrics, left.ErrorType
			if !reflect.DeepEqual(metrics, row.metrics) || errorType != row.errorType {
				t.Errorf("got %v %q, want %v %q", metrics, errorType, row.metrics, row.errorType)
			}
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got error %v, want %q", err, row.err)
			}
		})
	}
}

func TestResultMustBeRegularFile(t *testing.T) {
	dir := t.TempDir()
	if left, err := Result(filepath.Join(dir, "none"), "", ""); left.Metrics != nil || left.ErrorType != "" || err != nil {
		t.Errorf("got %v %v without a file, want nothing", left, err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Result(pipe, "", ""); err == nil {
		t.Error("got no error for a pipe")
	}
}

func TestResultThatTheLedgerCannotHoldIsKeptInFile(t *testing.T) {
	for _, row := range []struct {
		name, value string
		errorType   string
	}{
		{"too long for the ledger", `"` + strings.Repeat("x", maxMetrics) + `"`, "oom"},
		{"too long to read", `"` + strings.Repeat("x", maxResult) + `"`, ""},
		{"a number that is too large", `[0.5, -1e400]`, "oom"},
		{"nested too deeply", strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999), "oom"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"error_type":"oom","curve":` + row.value + `}`
			path, keep := write(t, filepath.Join(dir, "result"), text), filepath.Join(dir, "train.log.metrics")
			left, err := Result(path, keep, "")
			metrics, errorType := left.Metrics, left.ErrorType
			if want := (map[string]any{MetricsFile: keep}); err != nil || !reflect.DeepEqual(metrics, want) {
				t.Fatalf("got %v %v, want %v", metrics, err, want)
			}
			if errorType != row.errorType {
				t.Errorf("got %q, want %q", errorType, row.errorType)
			}
			if got, err := os.ReadFile(keep); err != nil || string(got) != text {
				t.Errorf("got %d bytes, %v; want the %d of the result file", len(got), err, len(text))
			}
			if _, err := Result(path, "", ""); err == nil {
				t.Error("got no error without a file to keep it in")
			}
		})
	}
}

// In a long file, the last values and points count.
func TestLongResultIsReadFromItsEnd(t *testing.T) {
	dir := t.TempDir()
	point := "{\"step\": 1, \"loss\": 0.5}\n"
	text := strings.Repeat(point, maxResult/len(point)) + strings.Repeat("{\"step\": 2, \"loss\": 0.25}\n", 10) + `{"test": 0.75}`
	path, keep, curve := write(t, filepath.Join(dir, "result"), text), filepath.Join(dir, "kept"), filepath.Join(dir, "curve")
	left, err := Result(path, keep, curve)
	want := map[string]any{"step": json.Number("2"), "loss": json.Number("0.25"), "test": json.Number("0.75")}
	if err != nil || !reflect.DeepEqual(left.Metrics, want) {
		t.Errorf("got %v, %v; want %v", left.Metrics, err, want)
	}
	if all, err := Kept(keep); err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("kept %v, %v; want %v", all, err, want)
	}
	if fi, err := os.Stat(keep); err != nil || fi.Size() != int64(len(text)) {
		t.Errorf("kept %v, %v; want %d bytes", fi, err, len(text))
	}
	points, err := os.ReadFile(curve)
	if want := strings.Repeat("{\"step\":2,\"loss\":0.25}\n", 10); err != nil || !strings.HasPrefix(string(points), "{\"step\":1,") || !strings.HasSuffix(string(points), want) {
		t.Errorf("got %d bytes of points, %v", len(points), err)
	}
}

func TestResultPointsAreOnePerLine(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "result"), `{"step": 1, "loss": 0.5}
{"note": "no point"} {"step":2,
 "loss":NaN}
{"step": "three"}
{"step": 3, "loss"`)
	curve := filepath.Join(dir, "metrics", "u.jsonl")
	left, err := Result(path, "", curve)
	if err == nil || left.Metrics["loss"] != "NaN" {
		t.Errorf("got %v, %v; want the last loss, and an error about the last object", left, err)
	}
	got, err := os.ReadFile(curve)
	if want := "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":\"NaN\"}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// notJSONOrString finds what quoteNaN quotes, and strings, which are to be skipped. It takes 50 times
// as long as quoteNaN.
var notJSONOrString = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"?|NaN|-?Infinity`)

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"a":1}{"b":NaN}`))
	f.Add([]byte(`{"error_type":"oom","s":"\"-Infinity\\"}`))
	f.Add([]byte(`{"a":-Infinity,"b":-1,"c":[NaN,Infinity],"d":"\\"NaN`))
	f.Add([]byte(`-InfinityNaN"\`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := notJSONOrString.ReplaceAllFunc(data, func(word []byte) []byte {
			if word[0] == '"' {
				return word
			}
			return strconv.AppendQuote(nil, string(word))
		})
		if got := quoteNaN(data); !bytes.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
		metrics, points, _ := merge(data)
		if _, err := json.Marshal(metrics); err != nil {
			t.Errorf("metrics that cannot be written to a ledger: %v", err)
		}
		for line := range strings.Lines(string(points)) {
			if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
				t.Errorf("%q is not a line of JSON", line)
			}
		}
	})
}
