package report

import (
	"gpurun/state/schema"
)

// Limits on the points of a curve, and of all curves, that keep the page fast.
const (
	maxPoints    = 400
	minPoints    = 16
	maxAllPoints = 400_000
)

// thin converts curves for the report. It keeps the lowest and highest point of each stretch of a
// long curve, so that outliers remain.
func thin(all []Curves) []schema.ReportCurve {
	n := 0
	for _, c := range all {
		n += len(c.List)
	}
	most, list := min(maxPoints, max(minPoints, maxAllPoints/max(1, n))), []schema.ReportCurve{}
	for _, c := range all {
		for i := range c.List {
			d := schema.ReportCurve{Job: c.Job, UniID: c.UniID, Pruned: c.Pruned, Curve: schema.Curve{Metric: c.List[i].Metric, Steps: []float64{}, Values: []*float64{}}}
			for _, k := range kept(c.List[i].Values, most) {
				d.Steps, d.Values = append(d.Steps, c.List[i].Steps[k]), append(d.Values, c.List[i].Values[k])
			}
			list = append(list, d)
		}
	}
	return list
}

// kept returns the indices of about most values: the first, the last, and the extremes of each
// stretch.
func kept(values []*float64, most int) []int {
	n := len(values)
	if n <= most {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
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
