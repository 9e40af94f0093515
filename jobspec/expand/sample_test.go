package expand

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// expansions returns the problems and warnings of a job and, if there are no problems, the parameters of
// each expansion.
func expansions(t *testing.T, text string, given ...string) []string {
	t.Helper()
	var out source.Report
	s := &source.Source{Path: "jobs.yaml", Data: []byte(text), Out: &out}
	var root yaml.Node
	if err := yaml.Unmarshal(s.Data, &root); err != nil {
		t.Fatal(err)
	}
	top := root.Content[0]
	givens := ParseGivens(given, &out)
	m, whole := Read(s, Keys{source.Child(top, "matrix"), source.Child(top, "zip"), source.Child(top, "sample"), source.Child(top, "params")}, givens)
	givens.ReportUnused(&out)
	var list []string
	for _, p := range append(out.Problems, out.Warnings...) {
		list = append(list, p.Error())
	}
	for i := 0; whole && len(out.Problems) == 0 && i < m.Count(); i++ {
		var row []string
		for _, p := range m.Values(i, "").Resolved() {
			row = append(row, p.Name+"="+p.Text)
		}
		list = append(list, strings.Join(row, " "))
	}
	return list
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Ledgers contain the keys of drawn jobs, so no later version may change the draws.
func TestDrawsNeverChange(t *testing.T) {
	check(t, expansions(t, `sample: {n: 4, rng: 7, params: {lr: log 1e-4..1e-1, depth: int 2..8, opt: [sgd, adam, lion], x: uniform -1..1, y: 0..1..0.25}}`),
		"lr=0.002454 depth=7 opt=sgd x=-0.7914 y=0.5",
		"lr=0.01129 depth=3 opt=sgd x=-0.9889 y=1",
		"lr=0.006752 depth=2 opt=sgd x=-0.5824 y=0",
		"lr=0.000845 depth=2 opt=adam x=-0.9884 y=0.5",
	)
	check(t, expansions(t, `sample: {n: 4, rng: 7, params: {w: int 64..1024..64, d: uniform 0..0.5..0.05, b: log 16..256..8, n: log 1..64..1, x: normal 0.5±0.1, y: lognormal -4+-1, z: normal 0 ± 3 .. 0.5}}`),
		"w=320 d=0.2 b=24 n=1 x=0.3743 y=0.01695 z=-3.5",
		"w=512 d=0.15 b=40 n=39 x=0.2462 y=0.06525 z=4",
		"w=896 d=0.1 b=192 n=2 x=0.4189 y=0.001722 z=-1.5",
		"w=1024 d=0 b=80 n=2 x=0.2476 y=0.02118 z=1.5",
	)
}

// Draws with a step must equal draws from a list of the same values. A step of 1 must not change draws of
// whole numbers.
func TestSteppedDrawsMatchLists(t *testing.T) {
	for with, without := range map[string]string{"int 2..8..1": "int 2..8", "int 64..256..64": "[64, 128, 192, 256]", "uniform 0..1..0.25": "0..1..0.25"} {
		check(t, expansions(t, "sample: {n: 30, params: {a: "+with+", i: int 1..1000000}}"), expansions(t, "sample: {n: 30, params: {a: "+without+", i: int 1..1000000}}")...)
	}
}

// A chi-square test compares 100,000 draws with the exact probability of each value or interval.
func TestDrawsHaveTheirDistribution(t *testing.T) {
	logWeight := func(step float64) func(v float64) float64 {
		return func(v float64) float64 { return math.Log((v + step/2) / (v - step/2)) }
	}
	even := func(float64) float64 { return 1 }
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 } // share below x
	rounded := func(mu, sigma, q float64) func(v float64) float64 {
		return func(v float64) float64 { return normal((v+q/2-mu)/sigma) - normal((v-q/2-mu)/sigma) }
	}
	for _, row := range []struct {
		draw            string
		low, high, step float64
		weight          func(v float64) float64
		part            func(x float64) float64 // for continuous draws: the share below x
	}{
		{"int 64..1024..64", 64, 1024, 64, even, nil},
		{"int -7..5", -7, 5, 1, even, nil},
		{"uniform 0..0.5..0.05", 0, 0.5, 0.05, even, nil},
		{"log 16..256..8", 16, 256, 8, logWeight(8), nil},
		{"log 1..64..1", 1, 64, 1, logWeight(1), nil},
		{"log 0.02..0.2..0.02", 0.02, 0.2, 0.02, logWeight(0.02), nil},
		{"log 3..3..1", 3, 3, 1, even, nil},
		{"normal 1±2..0.5", -4, 6, 0.5, rounded(1, 2, 0.5), nil},
		{"lognormal 2±0.5..2", 2, 20, 2, func(v float64) float64 {
			return normal((math.Log(v+1)-2)/0.5) - normal((math.Log(v-1)-2)/0.5)
		}, nil},
		{"normal 3±2", 0, 63, 1, even, func(x float64) float64 { return normal((x - 3) / 2) }},
		{"lognormal -3±0.25", 0, 63, 1, even, func(x float64) float64 { return normal((math.Log(x) + 3) / 0.25) }},
		{"log 1e-4..1e-1", 0, 63, 1, even, func(x float64) float64 { return math.Log10(x/1e-4) / 3 }},
		{"uniform -1..3", 0, 63, 1, even, func(x float64) float64 { return (x + 1) / 4 }},
	} {
		draw, err := ParseDraw(row.draw, "x")
		if err != nil || draw == nil {
			t.Fatalf("%s: %v", row.draw, err)
		}
		count := map[int]float64{}
		inside := 0.0
		for i := range 100_000 {
			x, err := strconv.ParseFloat(draw(bitsOf("1", "x", i)).Text, 64)
			if err != nil {
				t.Fatal(err)
			}
			if row.part != nil {
				x = min(math.Floor(64*row.part(x)), 63)
			}
			k := math.Round((x - row.low) / row.step)
			if math.Abs(row.low+k*row.step-x) > 1e-9 {
				t.Fatalf("%s: drew %v", row.draw, x)
			}
			if x >= row.low-1e-9 && x <= row.high+1e-9 {
				count[int(k)]++
				inside++
			} else if !strings.Contains(row.draw, "±") {
				t.Fatalf("%s: drew %v", row.draw, x)
			}
		}
		sum, values := 0.0, 0
		for v := row.low; v <= row.high+1e-9; v += row.step {
			sum += row.weight(v)
			values++
		}
		chi := 0.0
		for k := range values {
			want := inside * row.weight(row.low+float64(k)*row.step) / sum
			chi += (count[k] - want) * (count[k] - want) / want
		}
		free := float64(values - 1)
		if chi > free+5*math.Sqrt(2*free) || inside < 97_000 {
			t.Errorf("%s: chi-square %.1f with %v degrees of freedom, %v draws in range", row.draw, chi, free, inside)
		}
	}
}

func TestLargerSampleKeepsEarlierDraws(t *testing.T) {
	few := expansions(t, `sample: {n: 3, params: {lr: log 1e-4..1e-1}}`)
	many := expansions(t, `sample: {n: 30, params: {lr: log 1e-4..1e-1}}`)
	check(t, many[:3], few...)
	more := expansions(t, `sample: {n: 3, params: {wd: int 0..9, lr: log 1e-4..1e-1}}`)
	for i := range more {
		if !strings.HasSuffix(more[i], few[i]) {
			t.Errorf("with another parameter: %s, want %s", more[i], few[i])
		}
	}
	if other := expansions(t, `sample: {n: 3, rng: 2, params: {lr: log 1e-4..1e-1}}`); other[0] == few[0] {
		t.Errorf("with another rng, the first draw is the same: %s", other[0])
	}
}

func TestDrawsAreSpreadEvenly(t *testing.T) {
	const n = 20000
	for _, row := range []struct {
		word, from, to string
		median         float64
	}{
		{"log", "1e-4", "1e-1", math.Sqrt(1e-5)},
		{"uniform", "-3", "5", 1},
		{"int", "0", "9", 4.5},
		{"log", "1e-300", "1e300", 1},
	} {
		draw, err := ParseDraw(row.word+" "+row.from+".."+row.to, "x")
		if err != nil {
			t.Fatal(err)
		}
		low, _ := strconv.ParseFloat(row.from, 64)
		high, _ := strconv.ParseFloat(row.to, 64)
		below, digits := 0, 0
		for i := range n {
			p := draw(bitsOf("1", "x", i))
			x, err := strconv.ParseFloat(p.Text, 64)
			if err != nil || x < low || x > high {
				t.Fatalf("%s: drew %s", row.word, p.Text)
			}
			if x < row.median {
				below++
			}
			mantissa, _, _ := strings.Cut(strings.Trim(strings.TrimLeft(p.Text, "-0."), "0"), "e")
			digits = max(digits, len(strings.Trim(strings.ReplaceAll(mantissa, ".", ""), "0")))
			node := yaml.Node{Kind: yaml.ScalarNode, Value: p.Text}
			if got := node.ShortTag(); got != p.Tag {
				t.Fatalf("%s is %s in YAML, want %s", p.Text, got, p.Tag)
			}
		}
		if math.Abs(float64(below)/n-0.5) > 0.02 || digits > 4 {
			t.Errorf("%s %s..%s: %d of %d draws are below the median %v; up to %d digits", row.word, row.from, row.to, below, n, row.median, digits)
		}
	}
}

func TestSampleDrawsAndProblems(t *testing.T) {
	for _, row := range []struct {
		name, in string
		want     []string
	}{
		{"few values", "sample: {n: 9, params: {a: [x], b: int 1..2}}", []string{"jobs.yaml:1:9: skipped 7 of 9 draws as repeats of earlier draws", "a=x b=1", "a=x b=2"}},
		{"combined with a matrix", "{matrix: {seed: [1, 2]}, sample: {n: 1, params: {a: [x]}}}", []string{"seed=1 a=x", "seed=2 a=x"}},
		{"no n", "sample: {params: {a: [x]}}", []string{"jobs.yaml:1:9: sample has no n; add n: 20"}},
		{"no params", "sample: {n: 2}", []string{`jobs.yaml:1:9: sample has no params; add params: {lr: "log 1e-4..1e-1"}`}},
		{"flat", "sample: {n: 2, lr: log 1..2}", []string{`jobs.yaml:1:16: unknown key "lr" in sample; put drawn parameters under params: {lr: …}`, `jobs.yaml:1:9: sample has no params; add params: {lr: "log 1e-4..1e-1"}`}},
		{"seed", "sample: {n: 2, seed: 3, params: {a: [x]}}", []string{`jobs.yaml:1:16: unknown key "seed" in sample; to seed the draws, write rng; parameters go under params`}},
		{"wrong n", "sample: {n: many, rng: 0.5, params: {a: [x]}}", []string{`jobs.yaml:1:13: sample: n: "many" is not a number`, `jobs.yaml:1:24: sample: rng: "0.5" is not a whole number`}},
		{"not a distribution", "sample: {n: 2, params: {a: x}}", []string{`jobs.yaml:1:28: sample: "x" is not a distribution for a; write "log 1e-4..1e-1", "uniform 0.1..0.9", "int 2..8" or a list`}},
		{"Ray's functions", "sample: {n: 2, params: {a: 'tune.loguniform(1e-4, 1e-1)', b: 'randint(2, 8)'}}", []string{
			`jobs.yaml:1:28: sample: "tune.loguniform(1e-4, 1e-1)" is not a distribution for a; write "log 1e-4..1e-1"`,
			`jobs.yaml:1:62: sample: "randint(2, 8)" is not a distribution for b; write "int 2..8"`}},
		{"Optuna's and W&B's functions", `sample: {n: 2, params: {a: 'trial.suggest_int("w", 1, 64, log=True)', b: 'suggest_float("x", 0, 0.5, step=0.05)', c: 'suggest_int("w", 1, 9, log=False)', d: 'quniform(0, 1, 0.1)', e: 'qloguniform(16, 256, 8)', f: 'lograndint(1, 65)'}}`, []string{
			`jobs.yaml:1:28: sample: "trial.suggest_int(\"w\", 1, 64, log=True)" is not a distribution for a; write "log 1..64..1"`,
			`jobs.yaml:1:74: sample: "suggest_float(\"x\", 0, 0.5, step=0.05)" is not a distribution for b; write "uniform 0..0.5..0.05"`,
			`jobs.yaml:1:118: sample: "suggest_int(\"w\", 1, 9, log=False)" is not a distribution for c; write "int 1..9"`,
			`jobs.yaml:1:158: sample: "quniform(0, 1, 0.1)" is not a distribution for d; write "uniform 0..1..0.1"`,
			`jobs.yaml:1:184: sample: "qloguniform(16, 256, 8)" is not a distribution for e; write "log 16..256..8"`,
			`jobs.yaml:1:214: sample: "lograndint(1, 65)" is not a distribution for f; write "log 1..64..1"`}},
		{"invalid steps and deviations", "sample: {n: 2, params: {a: int 0..10..3, b: log 4..68..8, c: log 0..64..1, d: int 0..1..0.5, e: uniform 1..0..0.1, f: int 0..9..0, g: log 1e-4..1..1e-4, h: int 1..2..3..4, i: normal 0±0, j: lognormal 0±100, k: normal 0±1..x, l: log 1..9..-1}}", []string{
			`jobs.yaml:1:28: sample: a: range "0..10..3" never reaches its end; try 0..9..3, or list the values`,
			`jobs.yaml:1:45: sample: b: log needs values above half the step (8), not 4; start at 8, or write uniform`,
			`jobs.yaml:1:62: sample: c: log needs values above half the step (1), not 0; start at 1, or write uniform`,
			`jobs.yaml:1:79: sample: d: 0..1..0.5 is not a low..high..step range; write int 64..1024..64`,
			`jobs.yaml:1:97: sample: e: 1..0..0.1 is not a low..high..step range; write uniform 64..1024..64`,
			`jobs.yaml:1:119: sample: f: range "0..9..0" has step 0`,
			`jobs.yaml:1:135: sample: g: 1e-4..1..1e-4 is not a low..high..step range; write log 64..1024..64`,
			`jobs.yaml:1:157: sample: h: 1..2..3..4 is not a low..high..step range; write int 64..1024..64`,
			`jobs.yaml:1:176: sample: i: 0±0 needs a mean, a deviation above 0 and a step above 0; write normal 0±1, or normal 0±1..0.1`,
			`jobs.yaml:1:191: sample: j: 0±100 needs a mean, a deviation above 0 and a step above 0; write lognormal 0±1, or lognormal 0±1..0.1`,
			`jobs.yaml:1:211: sample: k: 0±1..x needs a mean, a deviation above 0 and a step above 0; write normal 0±1, or normal 0±1..0.1`,
			`jobs.yaml:1:229: sample: l: 1..9..-1 is not a low..high..step range; write log 64..1024..64`}},
		{"padded", "sample: {n: 1, params: {c: int 08..64..8}}", []string{"c=32"}},
		{"log from 0", "sample: {n: 2, params: {a: log 0..1}}", []string{"jobs.yaml:1:28: sample: a: log needs positive numbers, not 0; start above 0, or write uniform"}},
		{"reversed", "sample: {n: 2, params: {a: int 8..2, b: uniform 1..0}}", []string{
			"jobs.yaml:1:28: sample: a: range 8..2 is reversed; write int 2..8", "jobs.yaml:1:41: sample: b: range 1..0 is reversed or empty; write uniform 0..1"}},
		{"not whole", "sample: {n: 2, params: {a: int 0.1..2}}", []string{"jobs.yaml:1:28: sample: a: 0.1..2 is not a range of whole numbers; write int 2..8, or uniform for other numbers"}},
		{"all 64-bit integers", "sample: {n: 1, params: {a: int -9223372036854775808..9223372036854775807}}", []string{"a=-7127634247631648161"}},
	} {
		t.Run(row.name, func(t *testing.T) { check(t, expansions(t, row.in), row.want...) })
	}
}

func TestGivenParametersOverrideFile(t *testing.T) {
	const file = `{matrix: {data: [a, b], seed: [1, 2], include: [{data: b, seed: 2, extra: 5}, {data: c, seed: 9}]}, params: {out: "runs/{data}", lr: 0.1}}`
	const zip = `zip: {model: [r, v], lr: [1, 2]}`
	for _, row := range []struct {
		name, in string
		given    []string
		want     []string
	}{
		{"an axis, one value", file, []string{"data=b", "seed=2"}, []string{"data=b seed=2 out=runs/b lr=0.1 extra=5"}},
		{"an axis, several values", "matrix: {seed: [1]}", []string{"seed=7, 3..4,'x, y'"}, []string{"seed=7", "seed=3", "seed=4", "seed=x, y"}},
		{"a parameter", "params: {lr: 0.1, out: 'r/{lr}'}", []string{"lr=1e-3"}, []string{"lr=1e-3 out=r/1e-3"}},
		{"a parameter becomes an axis", "{matrix: {a: [1, 2]}, params: {lr: 0.1, out: 'r/{lr}'}}", []string{"lr=1,2"}, []string{"a=1 lr=1 out=r/1", "a=1 lr=2 out=r/2", "a=2 lr=1 out=r/1", "a=2 lr=2 out=r/2"}},
		{"derived", "{matrix: {a: [1, 2]}, params: {out: 'r/{a}'}}", []string{"out=q{a}"}, []string{"a=1 out=q1", "a=2 out=q2"}},
		{"one of a zip group", zip, []string{"lr=5"}, []string{"lr=5 model=r", "lr=5 model=v"}},
		{"duplicates are removed", "zip: {model: [r, r, v], lr: [1, 2, 3]}", []string{"lr=5"}, []string{"lr=5 model=r", "lr=5 model=v"}},
		{"all of a zip group", zip, []string{"lr=5", "model=x"}, []string{"model=x lr=5"}},
		{"of a sample", "sample: {n: 3, params: {lr: log 1..9, d: [x]}}", []string{"lr=5"}, []string{"lr=5 d=x"}},
		{"several values for one of a zip group", zip, []string{"lr=5,6"}, []string{`-p lr=5,6: "lr" varies together with other parameters of zip; set it to a single value`}},
		{"of an include entry", "matrix: {a: [1], include: [{a: 1, b: 2}]}", []string{"b=3"}, []string{"a=1 b=3"}},
		{"several values, only in include", "matrix: {include: [{a: 1}, {a: 2}], exclude: [], b: [1]}", []string{"a=3,4"}, []string{
			"jobs.yaml:1:24: -p a=3,4: only include entries set a; set it to a single value", "jobs.yaml:1:32: -p a=3,4: only include entries set a; set it to a single value"}},
		{"exclude removes all jobs", "matrix: {a: [1, 2], exclude: [{a: 2}]}", []string{"a=2"}, []string{"jobs.yaml:1:30: -p and exclude remove every job of this matrix"}},
		{"unknown", "params: {lr: 0.1, seed: 1}", []string{"sed=2", "zebra=1"}, []string{`-p sed=2: no job has a parameter "sed"; did you mean "seed"?`, `-p zebra=1: no job has a parameter "zebra"; parameters: lr, seed`}},
		{"none", "{}", []string{"a=1"}, []string{`-p a=1: no job has a parameter "a"; these jobs have no parameters: add matrix or params`}},
		{"empty", "params: {a: 1}", []string{"a="}, []string{"a="}},
		{"twice", "params: {a: 1}", []string{"a=1", "a=2"}, []string{`-p a=2: "a" is set twice; separate its values with commas`}},
		{"a value twice", "params: {a: 1}", []string{"a=1,1.0"}, []string{`-p a=1,1.0: duplicate value "1.0"; keep only one`, `-p`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := expansions(t, row.in, row.given...)
			if len(row.want) > 0 && row.want[len(row.want)-1] == "-p" { // later problems are consequences of the first
				got, row.want = got[:1], row.want[:1]
			}
			check(t, got, row.want...)
		})
	}
}

func FuzzGiven(f *testing.F) {
	f.Add("seed=1,2..4,'a, b',\"\"")
	f.Add("x={y},1e-5, ")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Contains(text, "..") {
			return
		}
		g, err := parseGiven(text)
		if (g == nil) != (err != nil) || g != nil && len(g.values) == 0 {
			t.Fatalf("got %v, %v", g, err)
		}
	})
}

// FuzzDraw checks that a draw is invalid, or returns finite numbers that do not decrease with the bits.
func FuzzDraw(f *testing.F) {
	for _, s := range []string{"log 1..64..1", "int 64..1024..64", "uniform -0.5..0.5..0.05", "log 1e-4..1e-1", "normal 0±1..0.5", "lognormal -4+-1", "int 08..64..8", "uniform 0...5"} {
		f.Add(s, uint64(1<<63+12345))
	}
	f.Fuzz(func(t *testing.T, text string, bits uint64) {
		draw, err := ParseDraw(text, "x")
		if drawHint(text); draw == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: got a draw and the error %v", text, err)
		}
		last := math.Inf(-1)
		for _, b := range []uint64{0, bits, math.MaxUint64} {
			x, err := strconv.ParseFloat(draw(b).Text, 64)
			if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || x < last {
				t.Fatalf("%q: drew %q after %v: %v", text, draw(b).Text, last, err)
			}
			last = x
		}
	})
}
