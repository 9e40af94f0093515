package batches

import (
	"bytes"
	"slices"

	"gpurun/runner"
	"gpurun/runner/files"
	"gpurun/runner/results"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// Curves reads the points that an attempt reported in $GPURUN_RESULT and, if prune may stop its
// job, in its log.
func (ref *Ref) Curves(x *state.AttemptRecord) (list []schema.Curve) {
	dir, points, rule := ref.Folder(x.Ledger), x.Points, x.PointsRule
	if f, _, err := host.OpenRegular(disk.CurvePath(dir, x.UniID)); err == nil {
		list, _ = results.ReadCurves(f)
		f.Close()
	} else if reported, err := files.ResultPoints(runner.ResultPath(disk.AttemptDir(dir, x.UniID))); err == nil {
		list, _ = results.ReadCurves(bytes.NewReader(reported))
	}
	if o := ref.History.Open[x.UniID]; o != nil {
		points, rule = o.Points, o.PointsRule
	}
	j := ref.named(x.Ledger, x.Job)
	if len(points) == 0 || j == nil {
		return list
	}
	m := j.PruneMetric()
	if m == nil || rule != "" && rule != m.Rule || slices.ContainsFunc(list, func(c schema.Curve) bool { return c.Metric == m.Name }) {
		return list
	}
	c := schema.Curve{Metric: m.Name}
	for _, p := range points {
		c.Steps, c.Values = append(c.Steps, p.Step), append(c.Values, schema.Finite(p.Value))
	}
	return append(list, c)
}
