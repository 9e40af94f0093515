package batches

import (
	"slices"
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

// In the first group, six jobs with ten steps ran at the same time on two GPUs each. Pruning would
// have stopped the two worst at step 5. In the second group, the job with the best end starts badly,
// so pruning would have stopped it.
func TestReplayStopsWorstJobs(t *testing.T) {
	rule := jobspec.Prune{Metric: "acc", Goal: jobspec.Max, After: 5, Min: 5}
	job := func(group uint64, gpus float64, of func(step int) float64) past {
		p := past{group: group, rule: rule, gpus: gpus, start: 100, seconds: 3600}
		for step := 1; step <= 10; step++ {
			p.points = append(p.points, state.Point{Step: float64(step), Value: of(step)})
		}
		return p
	}
	var list []past
	for i := range 6 {
		list = append(list, job(1, 2, func(step int) float64 { return float64(i*step) / 100 }))
	}
	if row, want := replay(list, 0.8), []string{"0.8", "2 of 6", "17% of 12.00 hours", "1 of 1", "0"}; !slices.Equal(row, want) {
		t.Errorf("got %q, want %q", row, want)
	}
	for i := range 6 {
		list = append(list, job(2, 1, func(step int) float64 {
			if i == 5 && step < 9 {
				return 0
			}
			return float64(i+step) / 100
		}))
	}
	if row, want := replay(list, 0.8), []string{"0.8", "4 of 12", "17% of 18.00 hours", "1 of 2", "0.01"}; !slices.Equal(row, want) {
		t.Errorf("got %q, want %q", row, want)
	}
}
