// Package prune decides which jobs are not worth running to their end, given the metrics that they
// and others have reported.
package prune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpurun/jobspec"
	"gpurun/state"
)

// StepShare is the least relative distance between the steps that are compared, since a program may
// report thousands.
const StepShare = 0.01

// Why returns why a job that has reported own must stop, given what the other jobs of its group
// have reported; "" if it continues. It compares the job's best value so far with the others' best
// values up to the latest step that enough of them have reached, so that a job ahead of the others,
// or the last of its group, is compared too.
func Why(rule jobspec.Prune, own state.Curve, others []state.Curve) string {
	last, highest, least := own.Last(), rule.Goal == jobspec.Max, max(rule.Min, 1)
	switch {
	case own.Broken():
		return fmt.Sprintf("%s was NaN or infinite at two steps in a row, up to step %v", rule.Metric, last)
	case len(own) == 0 || last < rule.After:
		return ""
	}
	var reached []float64
	for _, o := range others {
		if o.Last() >= rule.After && slices.ContainsFunc(o, state.Point.Finite) {
			reached = append(reached, o.Last())
		}
	}
	if len(reached) < least {
		return ""
	}
	slices.Sort(reached)
	step := min(last, reached[len(reached)-least])
	var best []float64
	for _, o := range others {
		if b, ok := o.Best(step, highest); ok && o.Last() >= step {
			best = append(best, b)
		}
	}
	if len(best) < least {
		return ""
	}
	slices.SortFunc(best, func(a, b float64) int {
		if highest {
			a, b = b, a
		}
		return cmp.Compare(a, b)
	})
	keep := max(1, int(math.Ceil(rule.Keep*float64(len(best))-1e-9)))
	bar, link, by := best[keep-1], "where", ""
	if step < last {
		link, by = "and", fmt.Sprintf(" by step %v", step)
	}
	b, ok := own.Best(last, highest)
	switch {
	case !ok:
		return fmt.Sprintf("%s had no value up to step %v", rule.Metric, last)
	case b == bar || (b > bar) == highest:
		return ""
	}
	return fmt.Sprintf("best %s was %.4g up to step %v, %s %d of %d others had %.4g or better%s", rule.Metric, b, last, link, keep, len(best), bar, by)
}
