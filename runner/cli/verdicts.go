package cli

import (
	"fmt"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// A verdict is the core's, plus what happens while plan is asking.
type verdict struct {
	sched.Verdict
	Live bool // an attempt has not ended
}

// verdicts judges all jobs by history and file system, and by what a live run or the jobs
// of a dead one have done since. It returns the core that judged them as well. running says
// who is running the batch, or is "".
func (a *app) verdicts(b *jobspec.Batch, h *state.History, o sched.Options) (vs []verdict, core *sched.Core, running string) {
	alive := false
	for _, f := range b.Files {
		if r, ok, _ := disk.Running(f.Real, a.global.StateDir); ok {
			alive = true
			running = fmt.Sprintf("%s: running since %s as process %d on %s; unfinished jobs belong to that run", shown(f.Path), r.Since.Local().Format(time.DateTime), r.PID, r.Host)
		}
	}
	attempts, job := h.Attempts(), runner.JobFinder(b)
	m := a.settle(b, h, func(i int) string { return disk.Folder(b.Files[i].Real, a.global.StateDir) }, alive)
	core = sched.New(b, h, o)
	core.Step(now(), sched.Looked{Evidence: files.Evidence(b, h, o)})
	for id := range b.Jobs {
		vs = append(vs, verdict{Verdict: core.Verdict(id)})
	}
	for id, p := range pasts(b, h, core) {
		vs[id].Reason = p.reason(vs[id].Reason, b, &b.Jobs[id])
	}
	for _, at := range attempts {
		id, words := job(at), m.words(at)
		if alive {
			words = "running since " + at.Start.Time.Local().Format("15:04:05")
		}
		switch {
		case id < 0:
		case m.ended[at.Start.UniID] && vs[id].Run:
			vs[id].Reason += " meanwhile"
		case m.ended[at.Start.UniID]:
			vs[id].Reason += ", succeeded meanwhile"
		case words != "":
			vs[id] = verdict{sched.Verdict{Reason: words}, true}
		}
	}
	return vs, core, running
}
