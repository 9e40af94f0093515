package prune

import (
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

// Of six jobs of ten steps that ran at once, on two GPUs each, the two worst would have stopped at the first step that
// counts. In another group, the job that is best in the end begins badly.
func TestReplay(t *testing.T) {
	rule := jobspec.Prune{Metric: "acc", Goal: jobspec.Max, After: 5, Min: 5}
	past := func(group uint64, gpus int, of func(step int) float64) Past {
		p := Past{Group: group, Rule: rule, GPUs: gpus, Start: 100, Seconds: 10}
		for step := 1; step <= 10; step++ {
			p.Points = append(p.Points, state.Point{Step: float64(step), Value: of(step)})
		}
		return p
	}
	var list []Past
	for i := range 6 {
		list = append(list, past(1, 2, func(step int) float64 { return float64(i*step) / 100 }))
	}
	o := Replay(list, 0.8)
	if want := (Outcome{Pruned: 2, Took: 120, Saved: 20, Groups: 1, Kept: 1}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	for i := range 6 {
		list = append(list, past(2, 1, func(step int) float64 {
			if i == 5 && step < 9 {
				return 0
			}
			return float64(i+step) / 100
		}))
	}
	if o := Replay(list, 0.8); o.Groups != 2 || o.Kept != 1 || o.Lost < 0.0099 || o.Lost > 0.0101 || o.Pruned != 4 || o.Saved != 30 {
		t.Errorf("%+v", o)
	}
}
