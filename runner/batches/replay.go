package batches

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/sched/prune"
	"gpurun/state"
	"gpurun/state/disk"
)

// A past is a job that ran to its end. Its points are assumed to be evenly spaced in time.
type past struct {
	group                uint64
	rule                 jobspec.Prune
	gpus, start, seconds float64
	points               []state.Point
}

// ReplayPrune returns a table of what prune would have done to finished jobs, with the job file's
// keep and with other values.
func (r *Reader) ReplayPrune(paths []string) (rows [][]string, err error) {
	m, err := r.Measure(paths, "")
	if err != nil {
		return nil, err
	}
	var jobs []past
	keeps := []float64{0.7, 0.5, 0.3}
	for id, s := range m.successes {
		j := &m.Batch.Jobs[id]
		metric := j.PruneMetric()
		if s == nil || metric == nil {
			continue
		}
		start, end, _, logs, _ := m.traces(j, s, false)
		curve := disk.CurvePath(m.Folder(j.File), s.UniID)
		points, _ := files.Points(*metric, append(logs, files.LogPart{Path: curve, JSON: true}), files.LogPosition{}, true)
		if len(points) > 0 {
			gpus, began := max(1, len(start.GPUs), len(end.GPUs)), float64(end.Time.UnixMilli())/1000-end.Seconds
			jobs = append(jobs, past{m.Batch.PruneGroup(id), j.Spec.Prune, float64(gpus), began, end.Seconds, points})
			keeps = append(keeps, j.Spec.Prune.Keep)
		}
	}
	if len(jobs) == 0 {
		return nil, &Failure{Code: ExitUsage, Text: "no job with prune has succeeded and reported its metric yet", Hint: "add prune to the job file; that does not rerun any job"}
	}
	slices.Sort(keeps)
	rows = [][]string{{"keep", "pruned", "GPU time saved", "best kept", "max loss"}}
	for _, keep := range slices.Backward(slices.Compact(keeps)) {
		rows = append(rows, replay(jobs, keep))
	}
	return rows, nil
}

// replay applies prune with the given keep to past jobs, in the order in which they reported their
// points.
func replay(jobs []past, keep float64) []string {
	type report struct {
		at    float64
		job   int
		point state.Point
	}
	var all []report
	groups, took, saved := map[uint64][]int{}, 0.0, 0.0
	for i, j := range jobs {
		groups[j.group] = append(groups[j.group], i)
		took += j.gpus * j.seconds
		for n, x := range j.points {
			all = append(all, report{j.start + j.seconds*float64(n+1)/float64(len(j.points)), i, x})
		}
	}
	slices.SortStableFunc(all, func(a, b report) int { return cmp.Compare(a.at, b.at) })
	whole, curves, stopped := make([]state.Curve, len(jobs)), make([]state.Curve, len(jobs)), map[int]bool{}
	compared := make([]float64, len(jobs)) // by job: step at which it was last compared
	for _, r := range all {
		if whole[r.job] = whole[r.job].Add(r.point); !stopped[r.job] {
			curves[r.job] = whole[r.job]
		}
		if last := compared[r.job]; r.point.Step > last && r.point.Step < last*(1+prune.StepShare) && r.point.Finite() {
			continue // a run does not compare again after so few steps
		}
		compared[r.job] = r.point.Step
		group := groups[jobs[r.job].group]
		for _, id := range group {
			j, others := jobs[id], []state.Curve{}
			left := j.start + j.seconds - r.at
			if left <= 0 || stopped[id] || len(curves[id]) == 0 {
				continue
			}
			for _, other := range group {
				if other != id {
					others = append(others, curves[other])
				}
			}
			if j.rule.Keep = keep; prune.Why(j.rule, curves[id], others) != "" {
				stopped[id], saved = true, saved+j.gpus*left
			}
		}
	}
	kept, lost := 0, 0.0
	for _, group := range groups {
		var full, some state.Curve
		for _, id := range group {
			full, some = append(full, whole[id]...), append(some, curves[id]...)
		}
		highest := jobs[group[0]].rule.Goal == jobspec.Max
		best, _ := full.Best(math.Inf(1), highest)
		left, _ := some.Best(math.Inf(1), highest)
		if lost = max(lost, math.Abs(best-left)); best == left {
			kept++
		}
	}
	return []string{fmt.Sprint(keep), fmt.Sprintf("%d of %d", len(stopped), len(jobs)),
		fmt.Sprintf("%.0f%% of %.2f hours", 100*saved/max(took, 1e-9), took/3600), fmt.Sprintf("%d of %d", kept, len(groups)), fmt.Sprintf("%.4g", lost)}
}
