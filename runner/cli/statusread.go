package cli

import (
	"cmp"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
)

// statusOf asks the run, and reads the rest from the ledger; all of it if there is no run
// or it does not answer.
func (a *app) statusOf(ref *batchRef) *status {
	s := &status{File: ref.name(), Alive: ref.alive, LastRun: ref.history.LastRun(0).Time, last: disk.Changed(ref.dir), lists: map[state.Phase][]string{}}
	if ref.batch == nil {
		ref.batch = known(ref)
		s.Unread = ref.name() + " has errors (gpurun check " + ref.name() + " shows them); these are the jobs in its ledger"
		if !exists(ref.real) {
			s.Unread = ref.name() + " is gone; these are the jobs in its ledger"
		}
	}
	rep, err := ref.ask(control.Request{Op: control.OpStatus})
	var m aftermath
	if err == nil && rep.Snapshot != nil {
		s.Alive, s.Snapshot = true, *rep.Snapshot
	} else {
		if s.Alive {
			s.Mute = err.Error()
		}
		m = a.settle(ref.batch, ref.history, ref.folder(a), s.Alive)
		s.Snapshot = m.snapshot(ref)
	}
	s.died = !ref.alive && ref.runner.PID != 0
	if s.Alive {
		s.Runner = &ref.runner
	}
	for _, h := range s.Snapshot.Held {
		s.Held = append(s.Held, terminal.HeldLine(h))
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
	s.Failures, s.Succeeded = []ended{}, []ended{}
	phases := s.phases(b, ref.history)
	records := make([]*state.Record, len(phases))
	for id, p := range phases {
		s.lists[p] = append(s.lists[p], b.Jobs[id].Name)
		r := ref.history.Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		if records[id] = r; r == nil || !p.Ended() || p == state.Blocked || p == state.NotNeeded {
			continue
		}
		to, gpus := &s.Failures, r.GPUs
		if r.State == state.Succeeded {
			to, gpus = &s.Succeeded, nil
		}
		*to = append(*to, ended{
			Job: b.Jobs[id].Name, State: p, Meanwhile: m.ended[r.UniID], ExitCode: r.ExitCode, Signal: r.Signal, Reason: r.Reason, Line: r.Line,
			Ended: r.Time, Seconds: r.Seconds, GPUs: gpus, GPUCount: len(r.GPUs), Log: r.Log, Started: r.Start,
		})
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
