package runner

import (
	"os"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/runner/sched/stall"
)

// sampleProgress finds out, outside the loop, how much attempts have done so far.
func (l *loop) sampleProgress(uniIDs []string) {
	logs, results, reports := map[string]logPart{}, map[string]string{}, map[string]attempt{}
	for _, id := range uniIDs {
		if at := l.attempts.live[id]; at != nil {
			logs[id], results[id] = at.out, resultPath(at.launch.Dir)
			if at.reports != nil {
				reports[id] = *at
			}
		}
	}
	l.beside(func() func() {
		var used map[string]time.Duration
		if l.Engine.Trees != nil {
			used = l.Engine.Trees.CPU(uniIDs)
		}
		var ev sched.ProgressSampled
		for _, id := range uniIDs {
			w := stall.Work{UniID: id, CPU: -1}
			if cpu, ok := used[id]; ok {
				w.CPU = cpu
			}
			if w.Output = logs[id].written(); w.Output >= 0 {
				w.Output += size(results[id])
			}
			ev.Work = append(ev.Work, w)
			if at, ok := reports[id]; ok {
				ev.Reported = append(ev.Reported, at.report(false))
				reports[id] = at
			}
		}
		return func() {
			for id, was := range reports {
				if at := l.attempts.live[id]; at != nil {
					at.read = was.read
				}
			}
			l.step(ev)
		}
	})
}

// report reads what an attempt has reported since the last time.
func (at *attempt) report(over bool) sched.Reported {
	r := sched.Reported{UniID: at.launch.UniID}
	r.Points, at.read, r.To = files.Points(*at.reports, at.out.parts(), at.read, over)
	if at.read.Log == 2 {
		r.Stderr = at.out.stderr
	}
	return r
}

// reportsOf returns the metric that prune goes by for a job, or nil.
func reportsOf(j *jobspec.Job, metrics []jobspec.Metric) *jobspec.Metric {
	i := slices.IndexFunc(metrics, func(m jobspec.Metric) bool { return m.Name == j.Spec.Prune.Metric })
	if i < 0 {
		return nil
	}
	return &metrics[i]
}

// written returns the bytes in the logs; -1 if nobody can tell how much is written to them, since
// one was removed or is no file.
func (p logPart) written() (sum int64) {
	for _, path := range slices.Compact([]string{p.stdout, p.stderr}) {
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() {
			return -1
		}
		sum += fi.Size()
	}
	return sum
}
