package runner

import (
	"os"
	"time"

	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// sampleProgress samples the progress of attempts in another goroutine, so as not to block the
// loop.
func (l *loop) sampleProgress(uniIDs []string) {
	attempts := map[string]attempt{}
	for _, id := range uniIDs {
		if at := l.attempts.live[id]; at != nil {
			attempts[id] = *at
		}
	}
	l.offload(func() func() {
		var used map[string]time.Duration
		if l.Engine.Trees != nil {
			used = l.Engine.Trees.CPU(uniIDs)
		}
		var ev sched.ProgressSampled
		for _, id := range uniIDs {
			at := attempts[id]
			w := stall.Work{UniID: id, CPU: -1}
			if cpu, ok := used[id]; ok {
				w.CPU = cpu
			}
			if w.Output = at.out.written(); w.Output >= 0 {
				w.Output += size(ResultPath(at.launch.Dir))
			}
			if at.reports != nil {
				w.Points, w.Rule = at.report(false), at.reports.Rule
				attempts[id] = at
			}
			ev.Work = append(ev.Work, w)
		}
		return func() {
			for id, was := range attempts {
				if at := l.attempts.live[id]; at != nil {
					at.read = was.read
				}
			}
			l.step(ev)
		}
	})
}

// report reads the points that an attempt has reported since the last call.
func (at *attempt) report(over bool) (points state.Curve) {
	result := files.LogPart{Path: ResultPath(at.launch.Dir), JSON: true}
	points, at.read = files.Points(*at.reports, append(at.out.found(), result), at.read, over)
	return points
}

// written returns the number of bytes in the logs, or -1 if one was removed or is not a regular
// file.
func (p logParts) written() (sum int64) {
	for _, part := range p {
		fi, err := os.Stat(part.Path)
		if err != nil || !fi.Mode().IsRegular() {
			return -1
		}
		sum += fi.Size()
	}
	return sum
}
