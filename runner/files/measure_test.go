package files

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
)

func TestMeasureTakesLastValueInLog(t *testing.T) {
	acc := `acc = ([0-9.]+|nan)`
	for _, row := range []struct {
		name, re, text string
		from, to       int64
		value          any
		missing        string
	}{
		{"last line", acc, "acc = 0.1\nacc = 0.2\n", 0, 0, 0.2, ""},
		{"last match of a line", acc, "acc = 0.1, acc = 0.2\ndone\n", 0, 0, 0.2, ""},
		{"without a newline at the end", acc, "acc = 0.25", 0, 0, 0.25, ""},
		{"end of a sentence", acc, "acc = 0.93.\n", 0, 0, 0.93, ""},
		{"carriage return", `^acc = ([0-9.]+)$`, "acc = 0.1\racc = 0.2\r 99%\r\n", 0, 0, 0.2, ""},
		{"colors", acc, "\x1b[32macc\x1b[0m = \x1b[1m0.5\x1b[0m\n", 0, 0, 0.5, ""},
		{"nan", acc, "acc = nan\n", 0, 0, "NaN", ""},
		{"infinite", `loss (\S+)`, "loss -inf\n", 0, 0, "-Infinity", ""},
		{"exponent", `loss (\S+)`, "loss 1.5e-07\n", 0, 0, 1.5e-07, ""},
		{"percent sign", `acc (\S+)`, "acc 91.5%\n", 0, 0, 91.5, ""},
		{"progress bar", `acc=(\S+)`, "\r 50%|██ | 1/2 [00:01<00:01, acc=0.4]\r100%|████| 2/2 [00:02<00:00, acc=0.5]", 0, 0, 0.5, ""},
		{"dict", `'acc': (\S+)`, "{'loss': 0.1, 'acc': 0.5}\n", 0, 0, 0.5, ""},
		{"in parentheses", `\(acc (\S+)`, "epoch 3 (acc 91.5%).\n", 0, 0, 91.5, ""},
		{"only this attempt's part", acc, "acc = 0.1\nxx\nacc = 0.3\n", 10, 13, nil, "no line of its log matches"},
		{"the end of the part", acc, "acc = 0.1\nacc = 0.3\n", 0, 10, 0.1, ""},
		{"no match", acc, "loss 1\n", 0, 0, nil, "no line of its log matches"},
		{"no number", `acc = (.*)`, "acc = n/a\n", 0, 0, nil, `"n/a" is not a number`},
		{"across chunks", acc, "acc = 0.75" + strings.Repeat("\n"+strings.Repeat("x", 99), 6000), 0, 0, 0.75, ""},
		{"in a long line", `acc = ([0-9.]+)`, strings.Repeat("x", 400_000) + "acc = 0.5 " + strings.Repeat("y", 300_000), 0, 0, 0.5, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "log"), row.text)
			m := Measure([]jobspec.Metric{{Name: "m", Log: regexp.MustCompile(row.re), Sum: "rule"}}, []LogPart{{Path: path, From: row.from, To: row.to}}, Limits{})
			if m.Values["m"] != row.value || m.Missing["m"] != row.missing {
				t.Errorf("got %v %q, want %v %q", m.Values["m"], m.Missing["m"], row.value, row.missing)
			}
			if (m.Sums["m"] != "") != (row.value != nil) {
				t.Errorf("got sum %q for the value %v", m.Sums["m"], m.Values["m"])
			}
		})
	}
}

// Metrics that are missing from stdout may be on stderr.
func TestMeasureReadsStderrForMissing(t *testing.T) {
	dir := t.TempDir()
	out := write(t, filepath.Join(dir, "out"), "loss 3\nacc 1\nacc 2\n")
	errs := write(t, filepath.Join(dir, "err"), "speed 7\nacc 9\n")
	var list []jobspec.Metric
	for _, name := range []string{"acc", "loss", "speed", "none"} {
		list = append(list, jobspec.Metric{Name: name, Log: regexp.MustCompile(name + ` (\d)`)})
	}
	list = append(list, jobspec.Metric{Name: "said"})
	m := Measure(list, []LogPart{{Path: out}, {Path: errs}}, Limits{})
	if want := (map[string]any{"acc": 2.0, "loss": 3.0, "speed": 7.0}); !reflect.DeepEqual(m.Values, want) {
		t.Errorf("got %v, want %v", m.Values, want)
	}
	if want := (map[string]string{"none": "no line of its log matches"}); !reflect.DeepEqual(m.Missing, want) {
		t.Errorf("got %v, want %v", m.Missing, want)
	}
}

func TestMeasureStopsAtLimits(t *testing.T) {
	dir := t.TempDir()
	list := []jobspec.Metric{{Name: "m", Log: regexp.MustCompile(`c = (\d+)`)}}
	log := write(t, filepath.Join(dir, "log"), "acc = 12345\n"+strings.Repeat("x\n", 50))
	for _, row := range []struct {
		limits  Limits
		missing string
	}{
		{Limits{Bytes: 50}, "its log is too long"},
		{Limits{Bytes: 109}, "its log is too long"}, // cuts the line with the number
		{Limits{Bytes: 112}, ""},
		{Limits{Until: time.Now().Add(-time.Second)}, "its log is too long"},
	} {
		m := Measure(list, []LogPart{{Path: log}}, row.limits)
		if m.Missing["m"] != row.missing {
			t.Errorf("%+v: got %v %q, want %q", row.limits, m.Values, m.Missing["m"], row.missing)
		}
	}
	file := write(t, filepath.Join(dir, "a.json"), `{"m": 1}`)
	m := Measure([]jobspec.Metric{fileMetric(file, "m", "")}, nil, Limits{Bytes: 5})
	if m.Missing["m"] != "a.json is too large" {
		t.Errorf("got %v, missing %v", m.Values, m.Missing)
	}
	pipe := filepath.Join(dir, "pipe.json")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	m = Measure([]jobspec.Metric{fileMetric(pipe, "m", ""), {Name: "l", Log: list[0].Log}}, []LogPart{{Path: pipe}}, Limits{})
	if m.Missing["m"] != "cannot read pipe.json" || m.Missing["l"] != "cannot read its log" {
		t.Errorf("got %v, missing %v", m.Values, m.Missing)
	}
}

// fileMetric returns a metric named m; at is, for example, "max val".
func fileMetric(path, key, at string) jobspec.Metric {
	goal, column, _ := strings.Cut(at, " ")
	return jobspec.Metric{Name: "m", Path: path, Key: key, At: column, AtMax: goal == "max"}
}

func TestMeasureReadsFileFormats(t *testing.T) {
	csv := "epoch,val_acc,test_acc\n1,0.5,0.4\n2, 0.9,0.8\n3,0.7,0.6\n"
	lightning := "step,train_loss,val_acc\n1,0.5,\n2,,0.7\n3,0.4,\n"
	for _, row := range []struct {
		file, text, key, at string
		value               any
		missing             string
	}{
		{"a.json", `{"test": {"acc": 0.5}}`, "test.acc", "", 0.5, ""},
		{"a.json", `{"test.acc": 0.5}`, "test.acc", "", 0.5, ""},
		{"a.json", `{"a.b": {"c.d": 0.5}}`, "a.b.c.d", "", 0.5, ""},
		{"a.json", `{"acc": NaN}`, "acc", "", "NaN", ""},
		{"a.json", `{"acc": "0.5"}`, "acc", "", 0.5, ""},
		{"a.json", `{"acc": [1, 2, 3]}`, "acc.-1", "", 3.0, ""},
		{"a.json", `{"acc": [1, 2, 3]}`, "acc.0", "", 1.0, ""},
		{"a.json", `{"acc": [1, 2, 3]}`, "acc.3", "", nil, "no acc.3 in a.json"},
		{"a.json", `{"acc": {"x": 1}}`, "acc", "", nil, "no acc in a.json"},
		{"a.json", `{"acc": true}`, "acc", "", nil, `"true" is not a number`},
		{"a.json", `{"acc": 12345678901234567}`, "acc", "", 12345678901234568.0, ""},
		{"a.json", `{"acc": `, "acc", "", nil, "a.json: is not JSON"},
		{"a.json", ``, "acc", "", nil, "a.json: is empty"},
		{"a.json", `[{"acc": 1, "val": 9}, {"acc": 2, "val": 1}]`, "acc", "", 2.0, ""},
		{"a.json", `[{"acc": 1, "val": 9}, {"acc": 2, "val": 1}]`, "acc", "max val", 1.0, ""},
		{"a.json", `[{"acc": 1}, {"acc": 2}]`, "0.acc", "", 1.0, ""},
		{"a.jsonl", "{\"acc\": 1}\n{\"acc\": 2}\n{\"end\": 1}\n{\"ac", "acc", "", 2.0, ""},
		{"a.jsonl", "{\"acc\": 1, \"v\": {\"l\": 3}}\n{\"acc\": 2, \"v\": {\"l\": 4}}\n", "acc", "min v.l", 1.0, ""},
		{"a.yaml", "test: {acc: 0.5}\nseed: 1\n", "test.acc", "", 0.5, ""},
		{"a.yml", "1: {acc: 1e-3}\n", "1.acc", "", 0.001, ""},
		{"a.yaml", "acc: .nan\n", "acc", "", "NaN", ""},
		{"a.yaml", "- acc: 1\n- acc: 2\n", "acc", "", 2.0, ""},
		{"a.yaml", "a: [\n", "acc", "", nil, "a.yaml: is not YAML"},
		{"a.csv", csv, "test_acc", "", 0.6, ""},
		{"a.csv", csv, "test_acc", "max val_acc", 0.8, ""},
		{"a.csv", csv, "test_acc", "min val_acc", 0.4, ""},
		{"a.csv", csv, "loss", "", nil, "no loss in a.csv"},
		{"a.csv", csv, "test_acc", "max val", nil, "no val in a.csv"},
		{"a.csv", lightning, "val_acc", "", 0.7, ""},
		{"a.csv", lightning, "train_loss", "max val_acc", nil, "no train_loss where val_acc is best in a.csv"},
		{"a.csv", "\ufeffacc;x\n0.5;1\n", "acc", "", 0.5, ""},
		{"a.csv", "acc,val\n1,nan\n2,3\n3,nan\n", "acc", "max val", 2.0, ""},
		{"a.csv", "acc,val\n1,3\n2,3\n", "acc", "max val", 1.0, ""},
		{"a.csv", "acc\n1\nacc\n", "acc", "", 1.0, ""},
		{"a.csv", "", "acc", "", nil, "a.csv: is empty"},
		{"a.tsv", "a b\tacc\nx y\t0.5\n", "acc", "", 0.5, ""},
		{"a.TSV", "acc\t\n0.5\n", "acc", "", 0.5, ""},
		{"a.bin", "", "acc", "", nil, "a.bin is not .json, .jsonl, .yaml, .csv or .tsv"},
	} {
		t.Run(row.file+" "+row.key+" "+row.at, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), row.file), row.text)
			m := Measure([]jobspec.Metric{fileMetric(path, row.key, row.at)}, nil, Limits{})
			if m.Values["m"] != row.value || m.Missing["m"] != row.missing {
				t.Errorf("got %v %q, want %v %q", m.Values["m"], m.Missing["m"], row.value, row.missing)
			}
		})
	}
	m := Measure([]jobspec.Metric{fileMetric("/nowhere/a.json", "m", "")}, nil, Limits{})
	if m.Missing["m"] != "no a.json" {
		t.Errorf("got %v for a missing file", m.Missing)
	}
}

// FuzzMetric looks for a number with every reader. Each must terminate, be consistent, and return a
// value that fits the ledger.
func FuzzMetric(f *testing.F) {
	f.Add(`acc (\S+)`, []byte("acc 1\r\x1b[1macc 2\n"), "a.b", "v")
	f.Add(`(.*)`, []byte(`{"a": {"b": [1, NaN]}}`), "a.b.1", "")
	f.Add(`(\d)`, []byte("a.b,v\n1,2\n"), "a.b", "v")
	f.Add(`()`, []byte("- {a: 1}\n- &x {a: *x}\n"), "-1.a", "a")
	f.Fuzz(func(t *testing.T, expr string, data []byte, key, at string) {
		list := []jobspec.Metric{{Name: "m", Key: key, At: at, AtMax: len(data)%2 == 0}}
		for _, read := range formats {
			_ = read(strings.NewReader(string(data)), pickers(list))
		}
		re, err := regexp.Compile(expr)
		if err != nil || re.NumSubexp() != 1 {
			return
		}
		path := write(t, filepath.Join(t.TempDir(), "log"), string(data))
		list[0].Log = re
		for _, from := range []int64{0, int64(len(data) / 2)} {
			m := Measure(list, []LogPart{{Path: path, From: from}}, Limits{})
			want, ok := "", false
			for _, line := range strings.FieldsFunc(string(data[from:]), func(r rune) bool { return r == '\n' || r == '\r' }) {
				if text, found := lastMatch(re, escapes().ReplaceAll([]byte(line), nil)); found {
					want, ok = text, true
				}
			}
			if got := m.Missing["m"] != "no line of its log matches"; got != ok {
				t.Errorf("from %d: got %v, want %q", from, m, want)
			}
			if text, isText := m.Values["m"].(string); isText && !slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, text) {
				t.Errorf("got %v, want a number, NaN or an infinity", m.Values)
			}
		}
	})
}
