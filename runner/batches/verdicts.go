package batches

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

// A Judgment is what a run of a batch would do now.
type Judgment struct {
	Verdicts []sched.Verdict // by job; PlanRunning for a job whose attempt has not ended
	Core     *sched.Core     // the core that judged the jobs
	Ref      *Ref            // the batch and its live run
}

// Judge judges all jobs by the history, the file system, and attempts that have ended since their
// run was killed. It also reports which jobs are still running.
func (r *Reader) Judge(b *jobspec.Batch, h *state.History, o sched.Options) Judgment {
	j := Judgment{Ref: &Ref{Reader: r, File: Shown(b.Files[0].Path), Real: b.Files[0].Real, More: b.RealPaths()[1:], Dir: disk.Folder(b.Files[0].Real, r.StateDir), Batch: b, History: h, run: h.LastRun(0), over: h.LastOver(0)}}
	for _, f := range b.Files {
		if r, ok, _ := disk.Running(f.Real, r.StateDir); ok {
			j.Ref.Alive, j.Ref.Runner, j.Ref.File = true, r, Shown(f.Path)
		}
	}
	attempts, job := h.Attempts(), runner.JobFinder(b)
	after := j.Ref.Settle()
	o.Zone = time.Local
	SetLimits(&o, b)
	j.Core = sched.New(b, h, o)
	j.Core.Step(runner.Now(), sched.Looked{Evidence: files.Evidence(b, h, o)})
	for id := range b.Jobs {
		j.Verdicts = append(j.Verdicts, j.Core.Verdict(id))
	}
	for id, p := range earlierVersions(b, h, j.Core) {
		v := &j.Verdicts[id]
		v.Code, v.Reason = schema.PlanCommandChanged, p.reason(v.Reason, b, &b.Jobs[id])
	}
	for _, at := range attempts {
		id, words := job(at), after.words(at)
		if j.Ref.Alive {
			words = "running since "
			if at.Start.Engine != "" && at.Running == nil {
				words = "queued since "
			}
			words += at.Start.Time.Local().Format("15:04:05")
		}
		switch {
		case id < 0:
		case after.meanwhile(at.Start.UniID) && j.Verdicts[id].Run:
			j.Verdicts[id].Reason += " meanwhile"
		case after.meanwhile(at.Start.UniID):
			j.Verdicts[id].Reason += ", succeeded meanwhile"
		case words != "":
			j.Verdicts[id] = sched.Verdict{Code: schema.PlanRunning, Reason: words}
		}
	}
	return j
}

// Running describes the live run of the batch, or returns "".
func (j *Judgment) Running() string {
	if !j.Ref.Alive {
		return ""
	}
	r := j.Ref.Runner
	return fmt.Sprintf("%s: running since %s as process %d on %s; unfinished jobs belong to that run", j.Ref.File, r.Since.Local().Format(time.DateTime), r.PID, r.Host)
}
