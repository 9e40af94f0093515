// Package prune decides which jobs are not worth running to their end, by what they and others have reported.
package prune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpurun/jobspec"
	"gpurun/state"
)

// Why returns why a job that has reported own stops, given what the others of its group have reported; "" if it
// continues. What they report later changes nothing, unless they go back to an earlier step.
func Why(rule jobspec.Prune, own state.Curve, others []state.Curve) string {
	step, highest := own.Last(), rule.Goal == jobspec.Max
	switch {
	case own.Broken():
		return fmt.Sprintf("%s was nan or infinite at two steps in a row, up to %v", rule.Metric, step)
	case len(own) == 0 || step < rule.After:
		return ""
	}
	var best []float64
	for _, o := range others {
		if b, ok := o.Best(step, highest); ok && o.Last() >= step {
			best = append(best, b)
		}
	}
	if len(best) < max(rule.Min, 1) {
		return ""
	}
	slices.SortFunc(best, func(a, b float64) int {
		if highest {
			a, b = b, a
		}
		return cmp.Compare(a, b)
	})
	keep := max(1, int(math.Ceil(rule.Keep*float64(len(best))-1e-9)))
	least := best[keep-1]
	b, ok := own.Best(step, highest)
	switch {
	case !ok:
		return fmt.Sprintf("%s had no value up to step %v", rule.Metric, step)
	case b == least || (b > least) == highest:
		return ""
	}
	return fmt.Sprintf("%s was %.4g up to step %v, where %d of %d others had %.4g or better", rule.Metric, b, step, keep, len(best), least)
}
