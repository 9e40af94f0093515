package report

import (
	"gpurun/runner/results"
	"gpurun/state/schema"
)

// These limit the number of points in each curve and in all curves, to keep the page fast.
const (
	maxPoints    = 400
	minPoints    = 16
	maxAllPoints = 400_000
)

// thin shortens long curves.
func thin(all []schema.ReportCurve) []schema.ReportCurve {
	most := min(maxPoints, max(minPoints, maxAllPoints/max(1, len(all))))
	for i := range all {
		results.Thin(&all[i].Curve, most)
	}
	return schema.List(all)
}
