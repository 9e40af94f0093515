package runner

import (
	"errors"
	"fmt"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// answer carries out another command's request. By the time it replies, the core has processed the
// request, and the ledger has recorded any stops.
func (l *loop) answer(call *control.Call) {
	if call.Op == control.OpReload {
		l.reload(func(r control.Reply) { call.Reply <- r })
		return
	}
	r, err := l.request(call.Request)
	if err != nil {
		r.Err, r.Refused = err.Error(), errors.As(err, new(control.Refusal))
	}
	if call.Op == control.OpStop || call.Op == control.OpStopGPU {
		if r.Silent = l.shown.silent; l.Does.Queues && len(r.Silent) > 0 { // stops reach jobs through files
			r.Silent, r.Note = nil, fmt.Sprintf("%s does not answer: running jobs stop anyway, and queued ones leave its queue once it answers; if one starts before, it exits immediately", l.Does.Name)
		}
	}
	call.Reply <- r
}

func (l *loop) request(r control.Request) (control.Reply, error) {
	switch r.Op {
	case control.OpStatus:
		return control.Reply{Status: l.status(r.Whole), Partial: l.partial(), Jobs: l.named(r)}, nil
	case control.OpWait:
		ids, err := l.match(r.Jobs, r.File)
		return control.Reply{Jobs: l.phases(ids)}, err
	case control.OpDrain:
		if why := l.Core.Closing(); why != "" {
			return control.Reply{Messages: []string{fmt.Sprintf("already %s: %s", l.Core.RunPhase(), why)}}, nil
		}
		l.step(sched.StopRequested{Drain: true, Why: sched.Drained})
		return control.Reply{}, nil
	case control.OpStopGPU:
		return control.Reply{}, l.stopGPU(r.GPU)
	case control.OpStop:
		if len(r.Jobs) == 0 {
			l.stop(sched.StopRequested{All: true, Why: "gpurun stop"})
			return control.Reply{}, nil
		}
		return l.onJobs(r, func(ids []int) sched.Event {
			return sched.StopRequested{Jobs: ids, Why: "gpurun stop"}
		})
	case control.OpPause, control.OpResume, control.OpRetry, control.OpSet:
		return l.steer(r)
	case control.OpForget:
		return l.onJobs(r, func(ids []int) sched.Event { return sched.ForgetRequested{Jobs: ids} })
	case control.OpDone:
		if r.Facts != nil {
			return l.takeOver(r)
		}
		return l.onJobs(r, func(ids []int) sched.Event { return sched.DoneRequested{Jobs: ids, Without: r.Without} })
	}
	return control.Reply{}, fmt.Errorf("the run does not support the request %q (it may use another version of gpurun)", r.Op)
}

// match returns the IDs of the jobs that match patterns: those of one file, or of all files if file
// is "". It omits jobs that a reload removed.
func (l *loop) match(patterns []string, file string) ([]int, error) {
	var ids []int
	for id := range l.Batch.Jobs {
		if !l.Core.Gone(id) && (file == "" || l.Batch.Files[l.Batch.Jobs[id].File].Real == file) {
			ids = append(ids, id)
		}
	}
	found, err := MatchJobs(patterns, len(ids), func(i int) string { return l.Batch.Jobs[ids[i]].Name })
	for i := range found {
		found[i] = ids[found[i]]
	}
	return found, err
}

// phases returns jobs with only their names and states.
func (l *loop) phases(ids []int) []*schema.Job {
	jobs := make([]*schema.Job, len(ids))
	for i, id := range ids {
		jobs[i] = &schema.Job{Name: l.Batch.Jobs[id].Name, State: l.Core.Phase(id)}
	}
	return jobs
}

// status returns the public status of the run, with all jobs if whole is set. The client adds the
// fields that come from the job files and the ledger.
func (l *loop) status(whole bool) *schema.Status {
	l.estimateEnd()
	st := l.snapshot()
	st.Run.Settings = l.changed()
	if whole {
		st.Jobs = l.Core.Jobs(l.Now())
		l.foresight.progress(st)
	}
	if len(l.Code) > 0 {
		st.Run.Snapshot = schema.Known(l.Code[0].Home())
	}
	for _, j := range st.Jobs {
		if a := j.Attempt; a != nil && a.UniID != nil {
			at := l.attempts.live[*a.UniID]
			if at != nil {
				a.Snapshot = schema.Known(at.snapshot)
			}
			if at != nil && at.out[0].Path != "" {
				a.Log = &schema.Log{Path: at.out[0].Path, From: schema.AtLeast(at.out[0].From, 0)}
			}
		}
	}
	for _, text := range append(slices.Clone(st.Live.Silent), schema.Value(st.Live.Unread)) {
		if text != "" {
			st.Warnings = append(st.Warnings, schema.Problem{Code: "run", Text: text})
		}
	}
	for _, h := range st.Live.Held {
		st.Warnings = append(st.Warnings, schema.Problem{Code: string(schema.WaitBreaker), Text: fmt.Sprintf("%s held (the first is %s), because the first attempts of %s failed with the same error: %s", state.Count(h.Jobs, "job"), h.First, state.Count(h.Attempts, "similar job"), h.Cause)})
	}
	return st
}

// partial reports whether the run leaves out some jobs of its files.
func (l *loop) partial() bool {
	for id := range l.Batch.Jobs {
		if l.Core.Phase(id) == "" && !l.Core.Gone(id) {
			return true
		}
	}
	return false
}

// changed returns the settings that have changed since the run began.
func (l *loop) changed() map[string]string {
	m := map[string]string{}
	for name := range l.reloads.set {
		m[name] = l.Batch.Settings.Shown(name)
	}
	return m
}

// named returns the jobs that a status request names.
func (l *loop) named(r control.Request) (jobs []*schema.Job) {
	if len(r.Jobs) == 0 {
		return nil
	}
	all := l.Core.Jobs(l.Now())
	for id := range l.Batch.Jobs {
		if j := all[id]; !l.Core.Gone(id) && slices.Contains(r.Jobs, j.Name) && (r.File == "" || r.File == j.File) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (l *loop) stopGPU(index int) error {
	if l.Prober == nil {
		return control.Refusal("this run uses no GPUs")
	}
	if !slices.ContainsFunc(l.Prober.Devices(), func(d gpu.Device) bool { return d.Index == index }) {
		return control.Refusal(fmt.Sprintf("this run has no GPU %d", index))
	}
	l.step(sched.StopRequested{GPU: &index, Why: fmt.Sprintf("gpurun stop --gpu %d", index)})
	return nil
}

// onJobs sends the event for the jobs that match the request's patterns. The reply lists the jobs
// that changed, and the others with the reasons why they did not. If a pattern matches no job,
// onJobs does nothing and returns an error.
func (l *loop) onJobs(req control.Request, event func(ids []int) sched.Event) (control.Reply, error) {
	named, err := l.match(req.Jobs, req.File)
	if err != nil {
		return control.Reply{}, err
	}
	var r control.Reply
	var ids []int
	for _, id := range named {
		if why := l.keeps(req.Op, id); why != "" {
			r.Keep(why, l.Batch.Jobs[id].Name)
			continue
		}
		if req.Op == control.OpDone && !req.Without {
			if why := files.Lacks(l.Batch, &l.Batch.Jobs[id]); why != "" {
				r.Refuse(why, l.Batch.Jobs[id].Name)
				continue
			}
		}
		ids = append(ids, id)
		if req.Op == control.OpPause && l.Core.Phase(id) == state.Running {
			r.Keep("keeps running; no new attempt starts", l.Batch.Jobs[id].Name)
			continue
		}
		r.Done = append(r.Done, l.Batch.Jobs[id].Name)
	}
	l.step(event(ids))
	return r, nil
}

func (l *loop) takeOver(req control.Request) (r control.Reply, err error) {
	byKey := map[string]int{}
	for id := range l.Batch.Jobs {
		if j := &l.Batch.Jobs[id]; !l.Core.Gone(id) && l.Batch.Files[j.File].Real == req.File {
			byKey[j.Key.String()] = id
		}
	}
	ev := sched.TakeOverRequested{Facts: map[int]state.Fact{}, Evidence: map[int]sched.Evidence{}}
	var taken []int
	for i := range req.Facts {
		f := &req.Facts[i]
		id, known := byKey[f.Key]
		if !known {
			r.Keep("not in the run, which read an older version of the file: run gpurun reload, then try again", f.Job)
			continue
		}
		j := &l.Batch.Jobs[id]
		why := l.keeps(control.OpDone, id)
		if why == "" {
			why = Supersedes(l.Core.History().Of(j.File, f.Key), f)
		}
		if why != "" {
			r.Keep(why, j.Name)
			continue
		}
		ev.Facts[id], ev.Evidence[id] = *f, files.EvidenceOf(l.Batch, j, state.NewRecord(j.File, 0, *f, nil))
		taken = append(taken, id)
	}
	l.step(ev)
	for _, id := range taken {
		if name := l.Batch.Jobs[id].Name; l.Core.Phase(id).Ended() || l.Core.Phase(id) == "" {
			r.Done = append(r.Done, name)
		} else {
			r.Keep("runs again: "+l.Core.Verdict(id).Reason, name)
		}
	}
	return r, nil
}

// Supersedes returns why the job's own record, which may be nil, takes precedence over a success in
// another ledger, or "" if it does not. The later of the two wins.
func Supersedes(here *state.Record, there *state.Fact) string {
	switch {
	case here == nil || here.Time.Before(there.Time):
		return ""
	case here.Forgotten:
		return "forgotten in this batch, unchanged"
	case here.State == state.Succeeded:
		return Already[control.OpDone]
	}
	return "a later attempt in this batch did not succeed, so the job will rerun"
}

// keeps returns why a request leaves a job unchanged, or "".
func (l *loop) keeps(op string, id int) string {
	p := l.Core.Phase(id)
	if steers := op != control.OpForget && op != control.OpDone; steers && p == "" {
		return "not part of this run"
	}
	switch op {
	case control.OpPause, control.OpResume, control.OpRetry:
		return l.unaffected(op, id, p)
	}
	j := &l.Batch.Jobs[id]
	r := l.Core.History().Of(j.File, j.Key.String())
	switch {
	case op == control.OpSet && p.Ended() && !p.Bad(): // the user may retry a job that failed
		return "already ended"
	case op == control.OpSet:
		return ""
	case op == control.OpStop && p == state.Cancelled:
		return "already cancelled"
	case op == control.OpStop && l.Core.Cancelling(id):
		return "already being cancelled"
	case op == control.OpForget && r != nil && r.Forgotten:
		return Already[op]
	case op == control.OpStop && p.Ended():
		return "already ended"
	case op == control.OpDone && (p == state.Succeeded || p == state.UpToDate) && (r == nil || !r.Forgotten):
		return Already[op]
	case op != control.OpStop && (p == state.Running || p == state.Queued):
		return StillRuns
	}
	return ""
}

// Already explains why repeating a request changes nothing for a job.
var Already = map[string]string{control.OpDone: "already done", control.OpForget: "already forgotten"}

// StillRuns explains why a running job cannot be forgotten or marked as done: the end of its
// attempt would override the mark.
const StillRuns = "still running, unchanged"

// NoMatch is an error for a pattern that matches no job.
type NoMatch string

func (p NoMatch) Error() string { return fmt.Sprintf("no job named %q", string(p)) }

// MatchJobs finds jobs by name or glob, as in needs, and returns each once, in batch order. A
// pattern without a match is an error.
func MatchJobs(patterns []string, n int, name func(id int) string) (ids []int, err error) {
	many, byName := len(patterns) > 1, map[string][]int{} // scanning all jobs for each of thousands of names is slow
	for id := 0; many && id < n; id++ {
		byName[name(id)] = append(byName[name(id)], id)
	}
	for _, p := range patterns {
		before := len(ids)
		if many && !jobspec.IsGlob(p) {
			ids = append(ids, byName[p]...)
		} else {
			glob := jobspec.Glob(p)
			for id := range n {
				if name(id) == p || glob.MatchString(name(id)) {
					ids = append(ids, id)
				}
			}
		}
		if len(ids) == before {
			return nil, NoMatch(p)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
