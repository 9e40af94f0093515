package runner

import (
	"os"
	"slices"
	"time"

	"gpurun/runner/sched"
	"gpurun/runner/sched/stall"
)

// sampleProgress finds out, outside the loop, how much attempts have done so far.
func (l *loop) sampleProgress(uniIDs []string) {
	logs, results := map[string]logPart{}, map[string]string{}
	for _, id := range uniIDs {
		if at := l.attempts.live[id]; at != nil {
			logs[id], results[id] = at.out, resultPath(at.launch.Dir)
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
		}
		return func() { l.step(ev) }
	})
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
