package jobspec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/jobspec/expand"
)

// convertText returns the job file for a sweep, or the problems.
func convertText(t testing.TB, dir, text string) (string, error) {
	path := filepath.Join(dir, "sweep.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := jobspec.Load([]string{path}, jobspec.Options{Command: "gpurun convert"})
	if err != nil {
		return "", err
	}
	return b.Sweep, nil
}

// For every distribution in W&B's documentation, a chi-square test compares 100,000 draws with
// W&B's probabilities.
func TestSweepDrawsMatchWandbDistributions(t *testing.T) {
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	between := func(low, high float64) func(x float64) float64 {
		return func(x float64) float64 { return (x - low) / (high - low) }
	}
	logs := func(low, high float64) func(x float64) float64 {
		return func(x float64) float64 { return between(math.Log(low), math.Log(high))(math.Log(x)) }
	}
	for _, row := range []struct {
		param, draw string
		q           float64                 // draws are multiples of q; 0 for a continuous distribution
		below       func(x float64) float64 // the share of draws below x
	}{
		{"distribution: int_uniform, min: -3, max: 12", "int -3..12", 1, between(-3.5, 12.5)},
		{"min: -3, max: 12", "int -3..12", 1, between(-3.5, 12.5)},
		{"distribution: uniform, min: -1, max: 3", "uniform -1..3", 0, between(-1, 3)},
		{"min: 0.5, max: 3", "uniform 0.5..3", 0, between(0.5, 3)},
		{"distribution: q_uniform, min: 0, max: 1, q: 0.1", "uniform 0..1..0.1", 0.1, between(-0.05, 1.05)},
		{"distribution: q_uniform, min: 5, max: 31.5", "uniform 5..31..1", 1, between(4.5, 31.5)},
		{"distribution: log_uniform, min: -9.2, max: -2.3", "log 0.000101039..0.100259", 0, logs(math.Exp(-9.2), math.Exp(-2.3))},
		{"distribution: log_uniform_values, min: 1e-5, max: 0.1", "log 0.00001..0.1", 0, logs(1e-5, 0.1)},
		{"distribution: q_log_uniform, min: 0, max: 4.2, q: 2", "log 2..66..2", 2, logs(1, 67)},
		{"distribution: q_log_uniform_values, min: 16, max: 256, q: 8", "log 16..256..8", 8, logs(12, 260)},
		{"distribution: inv_log_uniform, min: 2.3, max: 9.2", "log 0.000101039..0.100259", 0, logs(math.Exp(-9.2), math.Exp(-2.3))},
		{"distribution: inv_log_uniform_values, min: 0.001, max: 1", "log 0.001..1", 0, logs(0.001, 1)},
		{"distribution: normal", "normal 0±1", 0, normal},
		{"distribution: normal, mu: 3, sigma: 0.5", "normal 3±0.5", 0, func(x float64) float64 { return normal((x - 3) / 0.5) }},
		{"distribution: q_normal, mu: 10, sigma: 3, q: 2", "normal 10±3..2", 2, func(x float64) float64 { return normal((x - 10) / 3) }},
		{"distribution: log_normal, mu: -3, sigma: 0.25", "lognormal -3±0.25", 0, func(x float64) float64 { return normal((math.Log(x) + 3) / 0.25) }},
		{"distribution: q_log_normal, mu: 2, sigma: 0.5", "lognormal 2±0.5..1", 1, func(x float64) float64 {
			return normal((math.Log(max(x, 1e-300)) - 2) / 0.5)
		}},
		{"distribution: categorical, values: [1, 2, 3, 4]", "[1, 2, 3, 4]", 0, nil},
		{"distribution: constant, value: 7", "7", 0, nil},
	} {
		t.Run(row.param, func(t *testing.T) {
			text, err := convertText(t, t.TempDir(), "{method: random, program: t.py, parameters: {x: {"+row.param+"}}}")
			if _, draw, _ := strings.Cut(text, " x: "); err != nil || strings.TrimSpace(draw) != row.draw {
				t.Fatalf("got %s %v, want %s", draw, err, row.draw)
			}
			if row.below == nil {
				return
			}
			draw, err := expand.ParseDraw(row.draw, "x")
			if err != nil {
				t.Fatal(err)
			}
			count, random := map[float64]float64{}, rand.New(rand.NewPCG(1, 2))
			const n, parts = 100_000, 64
			for range n {
				x, err := strconv.ParseFloat(draw(random.Uint64()).Text, 64)
				if err != nil {
					t.Fatal(err)
				}
				if row.q > 0 {
					count[math.Round(x/row.q)]++
				} else {
					count[min(math.Floor(parts*row.below(x)), parts-1)]++
				}
			}
			chi, free := 0.0, -1.0
			for k := -1000.0; k <= 1000; k++ {
				share := 0.0
				if row.q > 0 {
					share = min(1, max(0, row.below((k+0.5)*row.q))) - min(1, max(0, row.below((k-0.5)*row.q)))
				} else if k >= 0 && k < parts {
					share = 1.0 / parts
				}
				if share*n < 5 { // too rare for the test, but impossible values must not occur
					if math.IsNaN(share) || share < 1e-9 && count[k] > 0 {
						t.Errorf("drew the impossible value %v %v times", k, count[k])
					}
					continue
				}
				chi += (count[k] - share*n) * (count[k] - share*n) / (share * n)
				free++
			}
			if chi > free+4*math.Sqrt(2*free) || free < 7 {
				t.Errorf("chi-square %.1f with %v degrees of freedom", chi, free)
			}
		})
	}
}

// Keys that a job file cannot express must be refused with their position and a fix.
func TestUnsupportedSweepKeysAreRefused(t *testing.T) {
	for _, row := range []struct{ name, sweep, want string }{
		{"method", "{method: optuna, program: t.py, parameters: {x: {value: 1}}}", `1:10: unknown method "optuna"; write grid, random or bayes`},
		{"run_cap", "{method: random, run_cap: many, program: t.py, parameters: {x: {value: 1}}}", `1:27: invalid run_cap "many"; use a whole number of at least 1, such as 20`},
		{"key", "{method: grid, program: t.py, scheduler: {}, parameters: {x: {value: 1}}}", `1:31: scheduler has no equivalent in a job file; remove it`},
		{"mistyped", "{method: grid, program: t.py, paramters: {}, parameters: {x: {valeus: [1]}}}", `1:31: paramters has no equivalent in a job file; did you mean "parameters"?
1:59: parameter x: method: grid needs values; write values: […], or method: random
1:63: valeus has no equivalent in a job file; did you mean "values"?`},
		{"probabilities", "{method: random, program: t.py, parameters: {x: {values: [1, 2], probabilities: [0.5, 0.5]}}}", `1:66: probabilities has no equivalent in a job file; list likelier values more than once`},
		{"program", "{method: grid, parameters: {x: {value: 1}}}", `1:1: ${program} in the command has no equivalent in a job file; add program: train.py, or use one of ${args}, ${args_no_hyphens}, ${args_no_boolean_flags}, ${args_json}`},
		{"macro", `{method: grid, command: [python, t.py, "${args_json_file}"], parameters: {x: {value: 1}}}`, `1:25: ${args_json_file} in the command has no equivalent in a job file; add program: train.py, or use one of ${args}, ${args_no_hyphens}, ${args_no_boolean_flags}, ${args_json}
1:25: the command does not pass the parameters; add ${args}`},
		{"distribution", "{method: random, program: t.py, parameters: {x: {distribution: q_norml}, y: {distribution: beta}}}", `1:46: parameter x: unknown distribution "q_norml"; did you mean "q_normal"?
1:74: parameter y: unknown distribution "beta"; use one of int_uniform, inv_log_uniform, inv_log_uniform_values, log_normal, log_uniform, log_uniform_values, normal, q_log_normal, q_log_uniform, q_log_uniform_values, q_normal, q_uniform, uniform`},
		{"numbers", "{method: random, program: t.py, parameters: {x: {min: 1}, y: {min: a, max: 2}, z: {distribution: normal, sigma: [1]}}}", `1:46: parameter x: max is missing or not a number; set max to a number
1:59: parameter y: min is missing or not a number; set min to a number
1:80: parameter z: sigma is missing or not a number; set sigma to a number`},
		{"ranges", "{method: random, program: t.py, parameters: {x: {min: 5, max: 1}, y: {distribution: log_uniform_values, min: 0, max: 1}, z: {distribution: q_uniform, min: 1, max: 3, q: 10}}}", `1:46: parameter x: range 5..1 is reversed; write int 1..5
1:67: parameter y: log needs positive numbers, not 0; start above 0, or write uniform
1:122: parameter z: 10..0..10 is not a low..high..step range; write uniform 64..1024..64`},
		{"grid", "{method: grid, program: t.py, parameters: {x: {min: 0.5, max: 1}, y: {}, z: 3}}", `1:44: parameter x: method: grid needs values; write values: […], or method: random
1:67: parameter y: method: grid needs values; write values: […], or method: random
1:74: parameter z has no values; write z: {values: [1, 2]}`},
		{"not in JSON", "{method: grid, program: t.py, parameters: {a: {values: [.nan, [.nan], {1: 2}, {a: {true: x}}]}}}", `1:63: this value has no equivalent in a job file; quote it
1:71: this value has no equivalent in a job file; quote it
1:79: this value has no equivalent in a job file; quote it`},
		{"nested", "{method: grid, program: t.py, parameters: {a: {parameters: [1]}}}", `1:60: parameters must be a mapping (name: value), not a list`},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := convertText(t, dir, row.sweep)
			_, list, _ := strings.Cut(fmt.Sprint(err), "\n\t* ")
			got := strings.TrimSpace(strings.ReplaceAll(list, "\t* ", ""))
			if got = strings.ReplaceAll(got, filepath.Join(dir, "sweep.yaml")+":", ""); got != row.want {
				t.Errorf("got %s\n%s\nwant\n%s", text, got, row.want)
			}
		})
	}
}

// FuzzSweep checks that every converted sweep is a job file without problems.
func FuzzSweep(f *testing.F) {
	for _, s := range []string{
		"{method: random, program: t.py, parameters: {x: {min: 1, max: 2.5}, y: {values: [a, 1, true, null, [1, b], {c: d}]}}}",
		`{method: grid, program: "a b.py", name: "{x}", project: "$p {x}", parameters: {x: {values: ["it's {y}", "{gpu}", "1..3", "a,b"]}, y: {value: "{x}"}}}`,
		`{method: bayes, run_cap: 3, command: ["${env}", "A=b", "${program}", "--d=${envvar:HOME}", "${args_json}"], program: t.py, parameters: {a: {parameters: {b-c: {value: "\"'"}, name: {values: [1]}}}}}`,
		`{method: random, program: t.py, command: [x, "${args_no_boolean_flags}"], parameters: {f: {values: [true, false]}, q: {distribution: q_normal, q: 0.1}}}`,
		`{method: random, program: t.py, command: [x, "${args_no_hyphens}", "{f}", ""], parameters: {f: {distribution: inv_log_uniform, min: 1, max: 2}, F: {value: 2020-01-01}}}`,
	} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		converted, err := convertText(t, dir, text)
		if err != nil || converted == "" || strings.Contains(converted, `\0`) || strings.Contains(converted, `\x00`) {
			return
		}
		path := filepath.Join(dir, "jobs.yaml")
		if err := os.WriteFile(path, []byte(converted), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := jobspec.Load([]string{path}, jobspec.Options{}); err != nil {
			t.Fatalf("%s\nis converted to\n%s\n%v", text, converted, err)
		}
	})
}
