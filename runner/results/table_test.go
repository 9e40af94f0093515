package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// data parses one job per line: parameters, metrics and state, separated by bars. A line such as
// "loss: min" sets a metric's goal.
func data(t *testing.T, text string) (d Data) {
	t.Helper()
	index := map[string]int{}
	add := func(name string) int {
		if _, known := index[name]; !known {
			index[name] = len(d.Metrics)
			d.Metrics = append(d.Metrics, Metric{Name: name})
		}
		return index[name]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, words, is := strings.Cut(line, ": "); is {
			m := &d.Metrics[add(name)]
			for _, w := range strings.Fields(words) {
				if m.Percent = m.Percent || w == "percent"; w != "percent" {
					m.Goal = jobspec.Goal(w)
				}
			}
			continue
		}
		parts := append(strings.Split(line, "|"), "", "", "")
		if line == "" {
			continue
		}
		j := Job{Name: fmt.Sprintf("job-%d", len(d.Jobs)), State: strings.TrimSpace(parts[2])}
		for _, p := range strings.Fields(parts[0]) {
			name, value, _ := strings.Cut(p, "=")
			switch name {
			case "entry":
				j.Entry.Name = value
			case "kind":
				kind, _ := strconv.Atoi(value)
				j.Kind = uint64(kind)
			case "commit":
				j.Commit = value
			case "sim":
				j.Sim = true
			default:
				j.Params = append(j.Params, Param{name, strings.ReplaceAll(value, "¦", "|")})
			}
		}
		for _, p := range strings.Fields(parts[1]) {
			name, value, _ := strings.Cut(p, "=")
			i := add(name)
			for len(j.Values) <= i {
				j.Values = append(j.Values, Value{})
			}
			x, err := strconv.ParseFloat(value, 64)
			j.Values[i] = Value{x, err == nil}
			if err != nil {
				j.Why = make([]string, i+1)
				j.Why[i] = strings.ReplaceAll(value, "_", " ")
			}
		}
		d.Jobs = append(d.Jobs, j)
	}
	return d
}

const federated = `
acc: max percent
loss: min
dataset=cifar10 algorithm=fedavg seed=42 | acc=0.811 loss=1.25
dataset=cifar10 algorithm=fedavg seed=43 | acc=0.815 loss=1.21
dataset=cifar10 algorithm=fedavg seed=44 | acc=0.809 loss=1.27
dataset=cifar10 algorithm=ours seed=42 | acc=0.912 loss=0.95
dataset=cifar10 algorithm=ours seed=43 | acc=0.917 loss=nan
dataset=cifar10 algorithm=ours seed=44 | acc=0.909 loss=0.91 | stale
dataset=svhn algorithm=fedavg seed=42 | acc=0.701 loss=1.5
dataset=svhn algorithm=fedavg seed=43 | | failed
dataset=svhn algorithm=fedavg seed=44 | acc=0.707 loss=inf
dataset=svhn algorithm=ours seed=42 | acc=0.712 loss=1.4
dataset=svhn algorithm=ours seed=43 | | running
dataset=svhn algorithm=ours seed=44 | | pending`

const tuned = `
acc: max
val: max
algorithm=a lr=0.1 seed=1 | acc=0.50 val=0.60
algorithm=a lr=0.1 seed=2 | acc=0.52 val=0.62
algorithm=a lr=0.2 seed=1 | acc=0.55 val=0.64
algorithm=a lr=0.2 seed=2 | acc=0.54 val=0.63
algorithm=a lr=0.4 seed=1 | acc=0.99 val=0.99
algorithm=a lr=0.4 seed=2 | | oom
algorithm=b lr=0.1 seed=1 | acc=0.70 val=0.71
algorithm=b lr=0.1 seed=2 | acc=0.71 val=0.72
algorithm=b lr=0.2 seed=1 | acc=0.60 val=0.61
algorithm=b lr=0.2 seed=2 | acc=0.61 val=0.60
algorithm=b lr=0.4 seed=1 | acc=0.62 val=0.61
algorithm=b lr=0.4 seed=2 | acc=0.63 val=0.62
algorithm=c lr=0.1 seed=1 | acc=0.1 val=0.1
algorithm=c lr=0.1 seed=2 | | failed`

const hostile = `
a&b_c%: max
p#1=x_1&2 \q{}=~^$<>¦"% | a&b_c%=1e-9
p#1=–Δ±≠ \q{}=\input{x} | a&b_c%=2e-9
p#1=[64] \q{}=* | a&b_c%=2e-9
p#1=* \q{}=[1] | a&b_c%=2e-9`

// tables are the cases in testdata/tables.txt.
var tables = []struct {
	name, data string
	o          Options
}{
	{"missing values are named in the cell", federated, Options{}},
	{"pivoted", federated, Options{Pivot: "algorithm", Metrics: []string{"acc"}}},
	{"two metrics pivoted, 95%", federated, Options{Pivot: "algorithm", Err: CI95}},
	{"differences", federated, Options{Versus: "algorithm=fedavg", Metrics: []string{"acc"}, Err: SEM}},
	{"differences between columns", federated, Options{Versus: "algorithm=ours", Pivot: "algorithm", Metrics: []string{"acc"}}},
	{"one row", federated, Options{Over: []string{"seed", "dataset"}, Where: []string{"algorithm=fedavg"}}},
	{"averaged over nothing", federated, Options{Over: []string{}, Where: []string{"dataset=svhn"}}},
	{"excluded and sorted", federated, Options{Where: []string{"seed!=43"}, Sort: "acc"}},
	{"sorted by a parameter, reversed", federated, Options{Sort: "-dataset", Metrics: []string{"acc"}}},
	{"best by validation", tuned, Options{By: []string{"algorithm"}, Best: "val", Metrics: []string{"acc"}}},
	{"best settings of two data sets", sets, Options{By: []string{"data", "algo"}, Best: "m"}},
	{"best within each algorithm", sets, Options{By: []string{"data", "algo"}, Best: "m", Within: []string{"algo"}}},
	{"within the first of two that vary", "m: max\na=x b=1|m=1\na=x b=2|m=2\na=y b=1|m=4\na=y b=2|m=3", Options{Within: []string{"b"}}},
	{"best by itself", tuned, Options{By: []string{"algorithm"}, Best: "acc", Metrics: []string{"acc"}}},
	{"best of each column", tuned, Options{Pivot: "algorithm", Best: "val", Metrics: []string{"acc"}}},
	{"best of each, compared", tuned, Options{By: []string{"algorithm"}, Best: "val", Metrics: []string{"acc"}, Versus: "algorithm=a"}},
	{"without a pair", "m: max\na=1 b=x seed=1|m=1\na=2 b=x seed=1|m=2\na=2 b=y seed=1|m=3\na=2 b=x seed=2|m=5", Options{Versus: "a=1"}},
	{"folds", "seed=1 fold=1|m=1\nseed=1 fold=2|m=2\nseed=2 fold=1|m=3\nseed=2 fold=2|m=nan", Options{Over: []string{"seed", "fold"}}},
	{"other folds are not a pair", "a=x seed=1 fold=1|m=1\na=x seed=1 fold=2|m=2\na=y seed=1 fold=1|m=3\na=x seed=2 fold=1|m=1\na=y seed=2 fold=1|m=2", Options{Over: []string{"seed", "fold"}, Versus: "a=x"}},
	{"repeats", "a=1|m=1\na=1|m=2\na=2|m=3\na=2|m=5", Options{}},
	{"some settings do not depend on the seed", "acc: max\na=1 seed=1|acc=0.5 time=1\na=1 seed=2|acc=0.5 time=2\na=1 seed=3|acc=0.5 time=2\na=2 seed=1|acc=0.5 time=3\na=2 seed=2|acc=0.6 time=4", Options{}},
	{"no setting depends on the seed", "a=1 seed=1|m=0.5\na=1 seed=2|m=0.5\na=2 seed=1|m=0.7\na=2 seed=2|m=0.7", Options{}},
	{"equal by chance", "a=1 seed=1|m=0.5\na=1 seed=2|m=0.5\na=2 seed=1|m=0.7\na=2 seed=2|m=0.8", Options{}},
	{"constants cause no warning", "seed=1|epochs=10 acc=0.5\nseed=2|epochs=10 acc=0.6", Options{}},
	{"several commits", "seed=1 commit=0123456789ab|m=1\nseed=2 commit=0123456789ab+|m=2\nseed=3 commit=aaaaaaaaaaaa sim=1|m=3", Options{}},
	{"two jobs of a file", "entry=train-{seed} kind=1 seed=1|m=1\nentry=train-{seed} kind=1 seed=2|m=2\nentry=eval-{seed} kind=2 seed=1|m=3\nentry=eval-{seed} kind=2 seed=2|m=4\nkind=3 seed=1||failed", Options{}},
	{"a value that diverged", "loss: min\na=x seed=1|loss=0.5\na=x seed=2|loss=0.7\na=y seed=1|loss=0.4\na=y seed=2|loss=0.5\na=z seed=1|loss=1.2e30\na=z seed=2|loss=3e30", Options{}},
	{"a value with a comma", "hidden=64,64|m=1\nhidden=128,64|m=2\nhidden=256|m=4", Options{Where: []string{"hidden!=64,64"}, Versus: "hidden=128,64"}},
	{"a job without a seed", "entry=base kind=1|m=1\nentry=ours-{seed} kind=2 seed=1|m=2\nentry=ours-{seed} kind=2 seed=2|m=4", Options{}},
	{"a setting without a seed", "entry=base kind=1 algo=base|m=nan\nentry=ours-{seed} kind=2 algo=ours seed=1|m=2\nentry=ours-{seed} kind=2 algo=ours seed=2|m=4", Options{}},
	{"two jobs that measure different things", "entry=t kind=1 seed=1|loss=1\nentry=t kind=1 seed=2|loss=2\nentry=e kind=2 seed=1|acc=3\nentry=e kind=2 seed=2||pending", Options{}},
	{"very small and very large", "seed=1|tiny=1.25e-9 huge=3.1e14 count=17\nseed=2|tiny=1.31e-9 huge=3.4e14 count=17", Options{}},
	{"reasons", "seed=1|m=its_log_is_gone\nseed=2|m=2", Options{}},
	{"already a percentage", "acc: percent\nseed=1|acc=91\nseed=2|acc=92", Options{}},
	{"many are missing", "seed=1|m=1\nseed=2||pending\nseed=3||pending\nseed=4||pending\nseed=5||pending\nseed=6||failed", Options{}},
	{"a parameter that some jobs lack", "a=1 seed=1|m=1\nseed=1|m=2", Options{}},
	{"the best so far, on one data set", "acc: max\ndata=cifar10 model=resnet18 lr=0.1 seed=1|acc=92.4\ndata=cifar10 model=resnet18 lr=0.1 seed=2|acc=92.5\ndata=cifar10 model=resnet18 lr=0.2 seed=1|acc=92.2\ndata=cifar10 model=resnet18 lr=0.2 seed=2|acc=92.42\ndata=cifar10 model=vit lr=0.1 seed=1|acc=99\ndata=cifar10 model=vit lr=0.1 seed=2||running", Options{}},
	{"the best, although others have no value for good", "acc: max\nlr=0.1 seed=1|acc=92\nlr=0.2 seed=1|acc=91\nlr=0.3 seed=1|acc=nan\nlr=0.4 seed=1|acc=-inf\nlr=0.5 seed=1||pruned", Options{}},
	{"the best on each data set, if the data set comes last", models, Options{}},
	{"the best on each data set, in columns", models, Options{Pivot: "data"}},
	{"hostile names", hostile, Options{}},
}

func TestTablesMatchGoldenFile(t *testing.T) {
	var got strings.Builder
	for _, row := range tables {
		fmt.Fprintf(&got, "== %s\n", row.name)
		table, err := Build(data(t, row.data), row.o)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if table.Headline != "" {
			got.WriteString(table.Headline + "\n")
		}
		for _, line := range table.Text(clean, func(s string) string { return s + "*" }) {
			got.WriteString(strings.Join(line, " | ") + "\n")
		}
		for _, line := range table.Remarks() {
			got.WriteString(line + "\n")
		}
		got.WriteString("\n")
	}
	golden(t, "tables.txt", got.String())
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (run with -update to accept it); got:\n%s", path, got)
	}
}

func TestFormatsMatchGoldenFiles(t *testing.T) {
	d := data(t, federated)
	table, err := Build(d, Options{Pivot: "algorithm", Metrics: []string{"acc"}, Versus: "algorithm=fedavg"})
	if err != nil {
		t.Fatal(err)
	}
	best, err := Build(data(t, tuned), Options{By: []string{"algorithm"}, Best: "val", Metrics: []string{"acc"}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Build(d, Options{Raw: true, Where: []string{"dataset=svhn"}, Sort: "loss"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Build(data(t, hostile), Options{})
	if err != nil {
		t.Fatal(err)
	}
	table.Files, best.Files, raw.Files = []string{"jobs.yaml"}, []string{"jobs.yaml"}, []string{"jobs.yaml"}
	for _, f := range []struct {
		name string
		by   func() string
	}{
		{"table.md", table.Markdown},
		{"table.tex", table.LaTeX},
		{"table.csv", table.CSV},
		{"table.json", func() string { return indented(t, table.Document(time.Unix(0, 0))) }},
		{"best.md", best.Markdown},
		{"best.tex", best.LaTeX},
		{"best.csv", best.CSV},
		{"best.json", func() string { return indented(t, best.Document(time.Unix(0, 0))) }},
		{"raw.md", raw.Markdown},
		{"raw.tex", raw.LaTeX},
		{"raw.csv", raw.CSV},
		{"raw.json", func() string { return indented(t, raw.Document(time.Unix(0, 0))) }},
		{"hostile.md", all.Markdown},
		{"hostile.tex", all.LaTeX},
	} {
		golden(t, f.name, f.by())
	}
}

func indented(t *testing.T, doc any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, row := range []struct {
		data, want, hint string
		o                Options
	}{
		{"a=1|\na=2|", "no job has a metric", "$GPURUN_RESULT", Options{}},
		{federated, `--metric: no job has a metric "acccuracy"`, "metrics: acc, loss", Options{Metrics: []string{"acccuracy"}}},
		{federated, `--by: no job has a parameter "model"`, "parameters: dataset, algorithm, seed", Options{By: []string{"model"}}},
		{federated, "--by: algorithm varies within these rows", "--over seed,algorithm", Options{By: []string{"dataset"}}},
		{federated, "--by: dataset is listed twice", "once", Options{By: []string{"dataset", "dataset"}}},
		{federated, "--by seed: the table averages over it", "--over", Options{By: []string{"seed"}, Over: []string{"seed"}}},
		{federated, "--pivot seed: the table averages over it", "--over", Options{Pivot: "seed", Over: []string{"seed"}}},
		{federated, "--within seed: not a row parameter", "rows: dataset, algorithm", Options{Within: []string{"seed"}}},
		{federated, "--within seed: not a row parameter", "rows: dataset", Options{Within: []string{"seed"}, Pivot: "algorithm"}},
		{federated, "--versus algorithm=x: no job has this value", "values of algorithm: fedavg, ours", Options{Versus: "algorithm=x"}},
		{federated, "--versus needs one parameter and one value", "fedavg", Options{Versus: "algorithm=x,y"}},
		{federated, "--versus seed: the table averages over it", "--over", Options{Versus: "seed=42"}},
		{federated, "--versus algorithm=ours: no other value to compare it with", "", Options{Versus: "algorithm=ours", Where: []string{"algorithm=ours"}}},
		{federated, "--where dataset=mnist: no job has this value", "values of dataset: cifar10, svhn", Options{Where: []string{"dataset=mnist"}}},
		{federated, "--where matches no job", "", Options{Where: []string{"dataset!=svhn,cifar10"}}},
		{federated, `--sort: no column "x"`, "columns: dataset, algorithm, acc, loss", Options{Sort: "x"}},
		{federated, "--best acc: no parameters left to choose from", "--by", Options{Best: "acc", By: []string{"dataset", "algorithm"}}},
		{"lr=1 seed=1|m=1\nlr=2 seed=1|m=2", "--best m: the metric has no goal (max or min)", "{m: {goal: max}}", Options{Best: "m"}},
	} {
		_, err := Build(data(t, row.data), row.o)
		r, is := err.(*Refusal)
		if !is || r.Text != row.want || !strings.Contains(r.Hint, row.hint) {
			t.Errorf("got %v, want %q with the hint %q", err, row.want, row.hint)
		}
		if is && r.Hint == "" && row.hint != "" {
			t.Errorf("%q has no hint", r.Text)
		}
	}
	if f, err := parseFilters([]string{"svhn"}); err == nil {
		t.Errorf("a value without a name: got %v, want an error", f)
	}
	f, err := parseFilters([]string{"a=1,2,b!=3", "c=", "d=1 e"})
	want := []filter{{"a", []string{"1", "2"}, false}, {"b", []string{"3"}, true}, {"c", []string{""}, false}, {"d", []string{"1 e"}, false}}
	if err != nil || fmt.Sprint(f) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", f, err, want)
	}
}

// LaTeX output compiles even if names contain its special characters.
func TestLaTeXCompiles(t *testing.T) {
	tex, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Skip("pdflatex is missing (Debian: texlive-latex-base)")
	}
	dir := t.TempDir()
	var doc bytes.Buffer
	doc.WriteString("\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n")
	for _, row := range tables {
		table, err := Build(data(t, row.data), row.o)
		if err != nil {
			t.Fatal(err)
		}
		doc.WriteString("\n\n" + table.LaTeX())
	}
	raw, err := Build(data(t, hostile), Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	doc.WriteString(raw.LaTeX() + "\\end{document}\n")
	if err := os.WriteFile(filepath.Join(dir, "t.tex"), doc.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tex, "-interaction=nonstopmode", "-halt-on-error", "t.tex")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "Missing character") {
		if strings.Contains(string(out), "booktabs.sty' not found") {
			t.Skip("the LaTeX package booktabs is missing (Debian: texlive-latex-recommended)")
		}
		t.Errorf("%v\n%s\n%s", err, out, doc.String())
	}
}

func TestReadCurvesSkipsInvalidLines(t *testing.T) {
	curves, err := ReadCurves(strings.NewReader("{\"step\":1,\"loss\":0.5,\"note\":\"x\"}\nbroken\n{\"step\":2,\"loss\":\"NaN\",\"val\":{\"acc\":0.25}}\n{\"step\":3,\"loss\":1e400}\n{\"step\":1e400,\"loss\":1}\n{\"loss\":1}\n{\"step\":\"3\",\"loss\":1}\n"))
	want := `[{"metric":"loss","steps":[1,2,3],"values":[0.5,null,null]},{"metric":"val.acc","steps":[2],"values":[0.25]}]`
	if got, _ := json.Marshal(curves); err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// The sample in docs/reference/results.md is actual output.
func TestDocumentedSampleIsActualOutput(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/results.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(page), "```json\n")
	sample, _, _ = strings.Cut(sample, "```")
	table, err := Build(data(t, "acc: max percent\nmodel=sgd seed=1|acc=0.5\nmodel=sgd seed=2||failed\nmodel=mlp seed=1|acc=0.75\nmodel=mlp seed=2|acc=0.25"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	table.Files = []string{"jobs.yaml"}
	text := indented(t, table.Document(time.Unix(1772345560, 0)))
	if json.Unmarshal([]byte(sample), &want) != nil || json.Unmarshal([]byte(text), &got) != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", text, sample)
	}
}

const models = "acc: max\nmodel=a data=x|acc=92\nmodel=a data=y|acc=85\nmodel=b data=x|acc=91\nmodel=b data=y|acc=86"

// sets has two algorithms on two data sets, each with its own best setting.
const sets = `m: max
data=x algo=p lr=1|m=1
data=x algo=p lr=2|m=2
data=x algo=q lr=1|m=4
data=x algo=q lr=2|m=3
data=y algo=p lr=1|m=7
data=y algo=p lr=2|m=8
data=y algo=q lr=1|m=6
data=y algo=q lr=2|m=5`
