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
	"gpurun/state/schema"
)

// A verdict is the core's, plus what happens while plan is asking.
type verdict struct {
	sched.Verdict
	Live bool // an attempt has not ended
}

// A judgment is what a run of a batch would do now.
type judgment struct {
	verdicts []verdict
	core     *sched.Core // that judged the jobs
	ref      *batchRef   // the batch, and who is running it
	after    aftermath   // of an earlier run's jobs
}

// judge judges all jobs by history and file system, and by what a live run or the jobs of a
// dead one have done since.
func (r *reader) judge(b *jobspec.Batch, h *state.History, o sched.Options) judgment {
	dir := func(i int) string { return disk.Folder(b.Files[i].Real, r.stateDir) }
	j := judgment{ref: &batchRef{reader: r, file: shown(b.Files[0].Path), real: b.Files[0].Real, dir: dir(0), batch: b, history: h, run: h.LastRun(0), over: h.LastOver(0)}}
	for _, f := range b.Files {
		if r, ok, _ := disk.Running(f.Real, r.stateDir); ok {
			j.ref.alive, j.ref.runner, j.ref.file = true, r, shown(f.Path)
		}
	}
	attempts, job := h.Attempts(), runner.JobFinder(b)
	j.after = settle(b, h, dir, j.ref.alive)
	j.core = sched.New(b, h, o)
	j.core.Step(runner.Now(), sched.Looked{Evidence: files.Evidence(b, h, o)})
	for id := range b.Jobs {
		j.verdicts = append(j.verdicts, verdict{Verdict: j.core.Verdict(id)})
	}
	for id, p := range pasts(b, h, j.core) {
		v := &j.verdicts[id]
		v.Code, v.Reason = schema.PlanCommandChanged, p.reason(v.Reason, b, &b.Jobs[id])
	}
	for _, at := range attempts {
		id, words := job(at), j.after.words(at)
		if j.ref.alive {
			words = "running since " + at.Start.Time.Local().Format("15:04:05")
		}
		switch {
		case id < 0:
		case j.after.ended[at.Start.UniID] && j.verdicts[id].Run:
			j.verdicts[id].Reason += " meanwhile"
		case j.after.ended[at.Start.UniID]:
			j.verdicts[id].Reason += ", succeeded meanwhile"
		case words != "":
			j.verdicts[id] = verdict{sched.Verdict{Code: schema.PlanRunning, Reason: words}, true}
		}
	}
	return j
}

// running says who is running the batch, or is "".
func (j *judgment) running() string {
	if !j.ref.alive {
		return ""
	}
	r := j.ref.runner
	return fmt.Sprintf("%s: running since %s as process %d on %s; unfinished jobs belong to that run", j.ref.file, r.Since.Local().Format(time.DateTime), r.PID, r.Host)
}
