package runner

import (
	"fmt"
	"slices"

	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// answer does what another command asks of this run. What it asks has happened
// as far as the core goes when it is answered: stops are in the ledger.
func (l *loop) answer(call *control.Call) {
	r, err := l.request(call.Request)
	if err != nil {
		r.Err = err.Error()
	}
	r.Silent = l.silent
	call.Reply(r)
}

func (l *loop) request(r control.Request) (control.Reply, error) {
	switch r.Op {
	case control.OpStatus:
		s := l.snapshot()
		return control.Reply{Snapshot: &s, Jobs: l.views(r, &s)}, nil
	case control.OpDrain:
		l.step(sched.Stop{Drain: true, Why: "gpurun stop --drain"})
		return control.Reply{}, nil
	case control.OpStopGPU:
		return control.Reply{}, l.stopGPU(r.GPU)
	case control.OpStop:
		if len(r.Jobs) == 0 {
			s := sched.Stop{All: true, Kill: r.Kill, Why: "gpurun stop"}
			l.out.stopped(s)
			l.step(s)
			return control.Reply{}, nil
		}
		return l.onJobs(r, func(ids []int) sched.Event {
			return sched.Stop{Jobs: ids, Why: "gpurun stop"}
		})
	case control.OpForget:
		return l.onJobs(r, func(ids []int) sched.Event { return sched.Forget{Jobs: ids} })
	case control.OpDone:
		return l.onJobs(r, func(ids []int) sched.Event { return sched.Done{Jobs: ids, Without: r.Without} })
	}
	return control.Reply{}, fmt.Errorf("the run does not know the request %q: is it of another version of gpurun?", r.Op)
}

// views are the jobs that a request for the status names, as they stand.
func (l *loop) views(r control.Request, s *state.Snapshot) []state.View {
	if len(r.Jobs) == 0 {
		return nil
	}
	var views []state.View
	for id := range l.Batch.Jobs {
		j := &l.Batch.Jobs[id]
		if !slices.Contains(r.Jobs, j.Name) || r.File != "" && r.File != l.Batch.Files[j.File].Real {
			continue
		}
		v := state.View{Job: j.Name, ID: id, Phase: l.Core.Phase(id)}
		for _, live := range slices.Concat(s.Running, s.Waiting) {
			if live.ID == id {
				v = live
			}
		}
		views = append(views, v)
	}
	return views
}

func (l *loop) stopGPU(index int) error {
	if l.Prober == nil {
		return fmt.Errorf("this run uses no GPU")
	}
	for _, d := range l.Prober.Devices() {
		if d.Index == index {
			l.step(sched.Stop{GPU: &index, Why: fmt.Sprintf("gpurun stop --gpu %d", index)})
			return nil
		}
	}
	return fmt.Errorf("there is no GPU %d", index)
}

// onJobs sends the event for the jobs that the patterns name, and tells which
// these are, and which it leaves as they are. A pattern that names none is an
// error, and then nothing is done.
func (l *loop) onJobs(req control.Request, event func(ids []int) sched.Event) (control.Reply, error) {
	named, err := MatchJobs(req.Jobs, len(l.Batch.Jobs), func(id int) string { return l.Batch.Jobs[id].Name })
	if err != nil {
		return control.Reply{}, err
	}
	var r control.Reply
	var ids []int
	for _, id := range named {
		if why := keeps(req.Op, l.Core.Phase(id)); why != "" {
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
		r.Done = append(r.Done, l.Batch.Jobs[id].Name)
	}
	l.step(event(ids))
	return r, nil
}

// keeps says why a job in this phase is left as it is by a request, or "".
func keeps(op string, p state.Phase) string {
	switch {
	case op == control.OpStop && p == "":
		return "not part of this run"
	case op == control.OpStop && p.Ended():
		return "ended already"
	case op == control.OpDone && (p == state.Succeeded || p == state.UpToDate):
		return "done already"
	case op != control.OpStop && p == state.Running:
		return StillRuns
	}
	return ""
}

// StillRuns is why a job that runs is neither forgotten nor recorded as done: its
// end would be the last word.
const StillRuns = "left as it is, because it runs"

// MatchJobs finds jobs by names or globs, in the order of the batch, each once;
// globs mean what they mean in needs. A pattern without a match is an error.
func MatchJobs(patterns []string, n int, name func(id int) string) ([]int, error) {
	chosen := make([]bool, n)
	for _, p := range patterns {
		found := false
		for id := range n {
			if name(id) == p || jobspec.MatchName(p, name(id)) {
				chosen[id], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no job is named %q", p)
		}
	}
	var ids []int
	for id, ok := range chosen {
		if ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
