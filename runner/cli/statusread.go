package cli

import (
	"cmp"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// unread returns why the jobs of a batch are not those of its files, which have errors or
// are gone: then they are those in its ledgers. "" if they can be read.
func (r *batchRef) unread() string {
	if r.batch != nil {
		return ""
	}
	r.batch = known(r)
	if !exists(r.real) {
		return r.name() + " is gone; these are the jobs in its ledger"
	}
	return r.name() + " has errors (gpurun check " + r.name() + " shows them); these are the jobs in its ledger"
}

// statusDoc returns the status for programs. It asks the run, and reads the rest from the
// ledger; all of it if there is no run or it does not answer.
func (a *app) statusDoc(ref *batchRef) *schema.Status {
	st, _ := a.statusAfter(ref)
	return st
}

// statusAfter is statusDoc, and says how the attempts have fared that the ledger left open.
func (a *app) statusAfter(ref *batchRef) (st *schema.Status, m aftermath) {
	unread := ref.unread()
	rep, err := ref.ask(control.Request{Op: control.OpStatus, Whole: true})
	if err != nil || rep.Status == nil {
		m = ref.settled(a)
		rep.Status = nil
	}
	st = a.document(ref, rep.Status, m)
	if ref.alive && err != nil {
		st.Warnings = append(st.Warnings, schema.Problem{Code: "silent", Text: "the run does not answer: " + err.Error() + "; this is from its ledger"})
	}
	if unread != "" {
		st.Warnings = append(st.Warnings, schema.Problem{Code: jobFile, Text: unread})
	}
	return st, m
}

// statusOf returns the status for people, from the same sources.
func (a *app) statusOf(ref *batchRef) *status {
	s := &status{File: ref.name(), Alive: ref.alive, LastRun: ref.history.LastRun(0).Time, code: ref.history.LastRun(0).Snapshot, last: disk.Changed(ref.dir), lists: map[state.Phase][]string{}, took: map[state.Phase][]float64{}}
	s.Unread = ref.unread()
	rep, err := ref.ask(control.Request{Op: control.OpStatus})
	m := aftermath{}
	if err == nil && rep.Snapshot != nil {
		s.Alive, s.Snapshot = true, *rep.Snapshot
	} else {
		if s.Alive {
			s.Mute = err.Error()
		}
		m = ref.settled(a)
		s.Snapshot = m.snapshot(ref)
	}
	s.died = !ref.alive && ref.runner.PID != 0
	if s.Alive {
		s.Runner = &ref.runner
	}
	s.ended(ref, m)
	if k, ok := keptSummary(ref.dir); ok && !s.Alive && len(m.ended)+len(s.Running) == 0 {
		s.kept = &k
	}
	return s
}

// folder returns a function that gives the state folder of each file of the batch.
func (r *batchRef) folder(a *app) func(int) string {
	files := r.files()
	return func(i int) string { return disk.Folder(files[i], a.global.StateDir) }
}

// known returns a batch of the jobs in the ledgers, for a job file that is gone or now
// has errors.
func known(ref *batchRef) *jobspec.Batch {
	b := &jobspec.Batch{}
	for _, f := range ref.files() {
		b.Files = append(b.Files, jobspec.File{Path: shown(f), Real: f})
	}
	records := slices.SortedFunc(ref.history.Records(), func(x, y *state.Record) int {
		return cmp.Or(cmp.Compare(x.Ledger, y.Ledger), cmp.Compare(x.StartSeq, y.StartSeq), cmp.Compare(x.EndSeq, y.EndSeq))
	})
	for _, r := range records {
		addJob(b, r.Job, r.Ledger, r.Key)
	}
	return b
}

// snapshot returns what the ledger has and what was found since, without a run to ask.
func (m aftermath) snapshot(ref *batchRef) state.Snapshot {
	s := state.Snapshot{At: time.Now().UTC(), Running: []state.View{}, Total: len(ref.batch.Jobs), Counts: map[state.Phase]int{}}
	for _, at := range ref.history.Attempts() {
		v := state.View{
			Job: at.Start.Job, ID: -1, UniID: at.Start.UniID, Attempt: at.Start.Attempt, Phase: state.Running, Started: at.Start.Time,
			GPUs: append([]int{}, at.Start.GPUs...), Memory: at.Start.Memory, Close: at.Start.Close, Used: -1, Log: at.Start.Log, Stop: at.Stop,
		}
		if at.Running != nil && at.Running.Host != "" {
			v.Host, v.GPUs = at.Running.Host, append([]int{}, at.Running.GPUs...)
		} else if at.Start.Engine != "" && !m.found[v.UniID].Began {
			v.Phase = state.Queued
		}
		if v.PID = m.found[v.UniID].PID; v.PID == 0 && at.Running != nil {
			v.PID = at.Running.PID
		}
		if !ref.alive {
			v.Note = m.words(at)
		}
		s.Running = append(s.Running, v)
	}
	for _, p := range sched.Phases(ref.batch, ref.history) {
		s.Counts[p]++
	}
	return s
}

// ended lists the jobs whose last attempt is over, with details of the attempt.
func (s *status) ended(ref *batchRef, m aftermath) {
	b := ref.batch
	phases := s.phases(b, ref.history)
	records := make([]*state.Record, len(phases))
	for id, p := range phases {
		s.lists[p] = append(s.lists[p], b.Jobs[id].Name)
		r := ref.history.Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		if records[id] = r; r != nil && r.State == state.Succeeded && p.Ended() && r.Seconds > 0 {
			s.took[p] = append(s.took[p], r.Seconds)
		}
	}
	s.fails = runner.Failures(b, func(id int) state.Phase { return phases[id] }, func(id int) (runner.Last, bool) {
		if records[id] == nil {
			return runner.Last{}, false
		}
		return runner.Recorded(records[id]), true
	})
	for i := range s.fails {
		if m.ended[s.fails[i].End.UniID] && s.fails[i].Alike.Count <= 1 {
			s.fails[i].Note = "meanwhile"
		}
	}
}

// phases returns the phase of each job. The ledger does not tell which jobs a live run
// has yet to run, but an end before the run's start does.
func (s *status) phases(b *jobspec.Batch, h *state.History) []state.Phase {
	phases := sched.Phases(b, h)
	if !s.Alive {
		return phases
	}
	open := map[string]bool{}
	for _, v := range append(slices.Clone(s.Running), s.Waiting...) {
		open[v.Job] = true
	}
	for id := range phases {
		j := &b.Jobs[id]
		r := h.Of(j.File, j.Key.String())
		switch {
		case open[j.Name]:
			phases[id] = state.Running
		case phases[id] == state.Running, phases[id].Bad() && (r == nil || r.Time.Before(h.LastRun(j.File).Time)):
			phases[id] = state.Pending
		}
	}
	return phases
}
