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
		if o.Last() < step {
			continue
		}
		if b, ok := o.Best(step, highest); ok {
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

// A Policy knows which jobs compete, and what they have reported.
type Policy struct {
	jobs   map[uint64][]int32 // by group
	groups map[int32]uint64
	curves map[int32]state.Curve
	fresh  bool // something was reported since Take
}

// Join has a job compete with those of its group that have joined before, with what it has reported.
func (p *Policy) Join(id int32, group uint64, before state.Curve) {
	p.jobs[group], p.groups[id] = append(p.jobs[group], id), group
	p.Set(id, before)
}

// Clear has no job compete. What they have reported is forgotten.
func (p *Policy) Clear() {
	p.jobs, p.groups, p.curves = map[uint64][]int32{}, map[int32]uint64{}, map[int32]state.Curve{}
}

// Set replaces what a job that has joined has reported.
func (p *Policy) Set(id int32, c state.Curve) {
	p.curves[id], p.fresh = c, true
}

// Curve returns what a job has reported.
func (p *Policy) Curve(id int32) state.Curve { return p.curves[id] }

// Again has Take report that something is to be looked at.
func (p *Policy) Again() { p.fresh = true }

// Take reports whether something was reported since it was last called.
func (p *Policy) Take() (fresh bool) {
	fresh, p.fresh = p.fresh, false
	return fresh
}

// Why returns why a job stops, or "".
func (p *Policy) Why(id int32, rule jobspec.Prune) string {
	var others []state.Curve
	for _, o := range p.jobs[p.groups[id]] {
		if o != id && len(p.curves[o]) > 0 {
			others = append(others, p.curves[o])
		}
	}
	return Why(rule, p.curves[id], others)
}
