package prune

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

var update = flag.Bool("update", false, "update the table in docs/guide/pruning.md")

// A training is a noisy curve. Final values and speeds vary, so curves cross. Some curves diverge.
type training struct {
	values []float64
	pace   float64 // time per step
}

const (
	sweepJobs  = 48
	sweepSteps = 50
	sweepGPUs  = 8
)

func sweep(seed int64) []training {
	r := rand.New(rand.NewSource(seed))
	list := make([]training, sweepJobs)
	for i := range list {
		final, tau := 0.95-0.35*math.Pow(r.Float64(), 1.2), math.Exp(math.Log(2)+r.Float64()*math.Log(10))
		noise, diverges := 0.005+0.01*r.Float64(), sweepSteps
		t := training{pace: 0.8 + 0.45*r.Float64(), values: make([]float64, sweepSteps)}
		if r.Float64() < 0.1 {
			diverges = r.Intn(sweepSteps)
		}
		for s := range t.values {
			if t.values[s] = final*(1-math.Exp(-float64(s+1)/tau)) + noise*r.NormFloat64(); s >= diverges {
				t.values[s] = 0.1 + noise*r.NormFloat64()
			}
		}
		list[i] = t
	}
	return list
}

// play simulates a sweep in virtual time, and returns the GPU time used and the best value.
func play(list []training, rule *jobspec.Prune) (cost, best float64) {
	type gpu struct {
		job, step int
		at        float64 // when the job reports the step
	}
	curves := make([]state.Curve, len(list))
	next, gpus, others := 0, make([]gpu, sweepGPUs), []state.Curve(nil)
	start := func(g *gpu, at float64) {
		if *g = (gpu{job: -1, at: math.Inf(1)}); next < len(list) {
			*g = gpu{job: next, at: at + list[next].pace}
			next++
		}
	}
	for i := range gpus {
		start(&gpus[i], 0)
	}
	for best = math.Inf(-1); ; {
		g := &gpus[0]
		for i := range gpus {
			if gpus[i].at < g.at {
				g = &gpus[i]
			}
		}
		if g.job < 0 {
			return cost, best
		}
		t, id := &list[g.job], g.job
		cost += t.pace
		curves[id] = append(curves[id], state.Point{Step: float64(g.step + 1), Value: t.values[g.step]}) // no points to thin out
		best = max(best, t.values[g.step])
		others = append(append(others[:0], curves[:id]...), curves[id+1:]...)
		if g.step++; g.step == len(t.values) || rule != nil && Why(*rule, curves[id], others) != "" {
			start(g, g.at)
		} else {
			g.at += t.pace
		}
	}
}

// The table of rules in pruning.md must match a simulation. go test ./runner/sched/prune -run Simulation
// -update rewrites it.
func TestPruningTableMatchesSimulation(t *testing.T) {
	const page, from, to = "../../../docs/guide/pruning.md", "<!-- simulation -->\n", "<!-- end -->"
	const sweeps = 200
	type result struct {
		list       []training
		cost, best float64
	}
	all := make([]result, sweeps)
	for i := range all {
		all[i].list = sweep(int64(i))
		all[i].cost, all[i].best = play(all[i].list, nil)
	}
	var out strings.Builder
	out.WriteString("| `keep` | `after` | GPU time saved | best kept | lost on average |\n| --- | --- | --- | --- | --- |\n")
	for _, after := range []float64{5, 10, 15} {
		for _, keep := range []float64{0.7, 0.5} {
			saved, kept, lost := 0.0, 0, 0.0
			for _, r := range all {
				cost, best := play(r.list, &jobspec.Prune{Metric: "acc", Goal: jobspec.Max, After: after, Keep: keep, Min: 5})
				if saved, lost = saved+1-cost/r.cost, lost+r.best-best; best == r.best {
					kept++
				}
			}
			fmt.Fprintf(&out, "| %v | %v | %.0f%% | %.0f%% | %.2f points |\n", keep, after, 100*saved/sweeps, 100*float64(kept)/sweeps, 100*lost/sweeps)
			if after >= 10 && keep > 0.5 && (saved < 0.3*sweeps || kept < sweeps*9/10) {
				t.Errorf("keep %v after %v saves %v of the GPU time and keeps the best in %d of %d sweeps", keep, after, saved/sweeps, kept, sweeps)
			}
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(text, []byte(from))
	_, tail, end := bytes.Cut(rest, []byte(to))
	if !ok || !end {
		t.Fatalf("%s lacks %q or %q", page, from, to)
	}
	want := string(head) + from + out.String() + to + string(tail)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("the table in %s is out of date, want\n%s", page, out.String())
	}
}
