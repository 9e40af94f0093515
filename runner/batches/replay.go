package batches

import (
	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/sched/prune"
	"gpurun/state"
	"gpurun/state/disk"
)

// Past returns the jobs of some files that have prune and succeeded, with what their logs have of its metric.
func (r *Reader) Past(paths []string) (list []prune.Past, err error) {
	m, err := r.Measure(paths, "")
	if err != nil {
		return nil, err
	}
	last := make([]map[string]*disk.Success, len(paths))
	for i, path := range paths {
		if last[i], _, err = disk.Successes(disk.Folder(path, r.StateDir)); err != nil {
			return nil, StateFailure(err)
		}
	}
	for id := range m.batch.Jobs {
		j := &m.batch.Jobs[id]
		s := last[j.File][j.Key.String()]
		if s == nil || j.Spec.Prune.Metric == "" {
			continue
		}
		start, end, rendered, logs, _ := m.traces(j, s, false)
		p := prune.Past{Group: m.batch.PruneGroup(id), Rule: j.Spec.Prune, GPUs: max(1, len(start.GPUs), len(end.GPUs)), Seconds: end.Seconds}
		p.Start = float64(end.Time.UnixMilli())/1000 - end.Seconds
		for _, x := range rendered.Metrics {
			if x.Name == p.Rule.Metric {
				p.Points = pointsOf(x, logs)
			}
		}
		if len(p.Points) > 0 {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, &Failure{Code: ExitUsage, Text: "no job with prune has succeeded and has its metric in its log", Hint: "add prune to the job file: that runs nothing again"}
	}
	return list, nil
}

// pointsOf reads all that a job has reported of a metric.
func pointsOf(x jobspec.Metric, logs []files.LogPart) (all []state.Point) {
	for at := (files.Place{}); ; {
		points, to, _ := files.Points(x, logs, at, true)
		if all = append(all, points...); to == at {
			return all
		}
		at = to
	}
}
