package report

import (
	"gpurun/state/schema"
)

// These limit the number of points in each curve and in all curves, to keep the page fast.
const (
	maxPoints    = 400
	minPoints    = 16
	maxAllPoints = 400_000
)

// thin shortens long curves. It keeps the lowest and highest point of each stretch, so that outliers
// remain.
func thin(all []schema.ReportCurve) []schema.ReportCurve {
	most := min(maxPoints, max(minPoints, maxAllPoints/max(1, len(all))))
	for i := range all {
		c := &all[i].Curve
		if len(c.Values) <= most {
			continue
		}
		whole := *c
		c.Steps, c.Values = nil, nil
		for _, k := range kept(whole.Values, most) {
			c.Steps, c.Values = append(c.Steps, whole.Steps[k]), append(c.Values, whole.Values[k])
		}
	}
	return schema.List(all)
}

// kept returns the indices of the values that a shortened curve keeps: the first, the last, and the
// extremes of each stretch. most is their approximate number.
func kept(values []*float64, most int) []int {
	n := len(values)
	list, stretches := []int{0}, (most-2)/2
	for s := range stretches {
		from, to := 1+(n-2)*s/stretches, 1+(n-2)*(s+1)/stretches
		lo, hi := from, from
		for i := from; i < to; i++ {
			if values[i] == nil || values[lo] != nil && *values[i] < *values[lo] {
				lo = i
			}
			if values[hi] == nil || values[i] != nil && *values[i] > *values[hi] {
				hi = i
			}
		}
		list = append(list, min(lo, hi))
		if lo != hi {
			list = append(list, max(lo, hi))
		}
	}
	return append(list, n-1)
}
