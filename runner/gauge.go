package runner

import (
	"time"

	"gpurun/runner/sched"
	"gpurun/runner/sched/stall"
)

// gauge finds out, outside the loop, how much attempts have done so far.
func (l *loop) gauge(uniIDs []string) {
	files := map[string][]string{} // what an attempt writes
	for _, id := range uniIDs {
		if at := l.attempts.live[id]; at != nil {
			files[id] = []string{at.out.stdout, resultPath(at.launch.Dir)}
			if at.out.stderr != at.out.stdout {
				files[id] = append(files[id], at.out.stderr)
			}
		}
	}
	l.beside(func() func() {
		var used map[string]time.Duration
		if l.Engine.Trees != nil {
			used = l.Engine.Trees.CPU(uniIDs)
		}
		var ev sched.Gauged
		for _, id := range uniIDs {
			w := stall.Work{UniID: id, CPU: -1}
			if cpu, ok := used[id]; ok {
				w.CPU = cpu
			}
			for _, path := range files[id] {
				w.Output += size(path)
			}
			ev.Work = append(ev.Work, w)
		}
		return func() { l.step(ev) }
	})
}
