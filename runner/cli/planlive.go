package cli

import (
	"fmt"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// A verdict is the core's, plus what happens while plan is asking.
type verdict struct {
	sched.Verdict
	Live bool // an attempt has not ended
}

type verdicts func(id int) verdict

// A nowRunning is the part of a batch that is alive while plan looks at it.
type nowRunning struct {
	aftermath
	run   string // who is running the batch, or ""
	live  map[int]string
	ended map[int]bool
}

// runningNow looks at a live run's jobs, and at what a dead one left.
func (a *app) runningNow(b *jobspec.Batch, h *state.History) nowRunning {
	n := nowRunning{live: map[int]string{}, ended: map[int]bool{}}
	alive := false
	for _, f := range b.Files {
		if r, ok, _ := disk.Running(f.Real, a.global.StateDir); ok {
			alive = true
			n.run = fmt.Sprintf("%s: running since %[4]s as process %[2]d on %[3]s; unfinished jobs belong to that run", shown(f.Path), r.PID, r.Host, r.Since.Local().Format(time.DateTime))
		}
	}
	attempts, job := h.Attempts(), finder(b)
	n.aftermath = a.settle(b, h, func(i int) string { return disk.Folder(b.Files[i].Real, a.global.StateDir) }, alive)
	for _, at := range attempts {
		id := job(at)
		switch words := n.words(at); {
		case n.aftermath.ended[at.Start.UniID]:
			n.ended[id] = true
		case alive:
			n.live[id] = "running since " + at.Start.Time.Local().Format("15:04:05")
		case words != "":
			n.live[id] = words
		}
	}
	return n
}

// verdicts returns the core's verdicts, updated by what has happened since.
func (n nowRunning) verdicts(core *sched.Core) verdicts {
	return func(id int) verdict {
		v := verdict{Verdict: core.Verdict(id)}
		if words := n.live[id]; words != "" {
			v.Live, v.Run, v.Reason = true, false, words
		} else if n.ended[id] && v.Run {
			v.Reason += " meanwhile"
		} else if n.ended[id] {
			v.Reason += ", succeeded meanwhile"
		}
		return v
	}
}
