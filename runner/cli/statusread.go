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
	"gpurun/state/host"
	"gpurun/state/schema"
)

// unread returns why the jobs of a batch are not those of its files, which have errors or
// are gone: then they are those in its ledgers. "" if they can be read.
func (ref *batchRef) unread() string {
	if ref.batch != nil && len(ref.batch.Params) == 0 && len(ref.run.Params) > 0 {
		return ref.name() + " no longer takes" + paramFlags(ref.run.Params) + "; these are its own values"
	}
	if ref.batch != nil {
		return ""
	}
	ref.batch = known(ref)
	if !host.Exists(ref.real) {
		return ref.name() + " is gone; these are the jobs in its ledger"
	}
	return ref.name() + " has errors (gpurun check " + ref.name() + " shows them); these are the jobs in its ledger"
}

// statusDoc returns the status for programs. It asks the run, and reads the rest from the
// ledger; all of it if there is no run or it does not answer.
func (ref *batchRef) statusDoc() *schema.Status {
	st, _ := ref.statusAfter()
	return st
}

// statusAfter is statusDoc, and says how the attempts have fared that the ledger left open.
func (ref *batchRef) statusAfter() (st *schema.Status, m aftermath) {
	unread := ref.unread()
	rep, err := ref.ask(control.Request{Op: control.OpStatus, Whole: true})
	if err != nil || rep.Status == nil {
		m = ref.settled()
		rep.Status = nil
	}
	st = ref.document(rep.Status, m)
	if ref.alive && !ref.past && err != nil {
		st.Warnings = append(st.Warnings, schema.Problem{Code: "silent", Text: "the run does not answer: " + err.Error() + "; this is from its ledger"})
	}
	if unread != "" {
		st.Warnings = append(st.Warnings, schema.Problem{Code: schema.JobFileProblem, Text: unread})
	}
	return st, m
}

// readStatus returns the status for people, from the same sources.
func readStatus(ref *batchRef) *status {
	s := &status{File: ref.name(), again: ref.command(), Alive: ref.alive && !ref.past, Runner: ref.runner, LastRun: ref.run.Time, code: schema.Known(ref.run.Snapshot), last: disk.Changed(ref.dir), lists: map[state.Phase][]string{}, took: map[state.Phase][]float64{}}
	s.Unread = ref.unread()
	rep, err := ref.ask(control.Request{Op: control.OpStatus, Whole: true})
	m, live := aftermath{}, rep.Status
	if err == nil && rep.Snapshot != nil && live != nil {
		s.Alive, s.Snapshot, s.code = true, *rep.Snapshot, live.Run.Snapshot
	} else {
		live = nil
		if s.Alive {
			s.Mute = err.Error()
		}
		m = ref.settled()
		s.Snapshot = m.snapshot(ref)
	}
	s.died = !ref.alive && !ref.past && ref.runner.PID != 0
	s.ended(ref, m, live)
	if k, ok := keptSummary(ref.dir); ok && !s.Alive && !ref.past && len(m.ended)+len(s.Running) == 0 && (k.code != exitDone || len(s.earlier) == 0) {
		s.kept = &k
	}
	s.outcome = schema.OutcomeOf(runDoc(ref), schema.CountsOf(s.Counts))
	return s
}

// folder returns the state folder of one of the batch's files.
func (ref *batchRef) folder(i int) string { return disk.Folder(ref.files()[i], ref.stateDir) }

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
func (s *status) ended(ref *batchRef, m aftermath, live *schema.Status) {
	b := ref.batch
	phases := s.phases(b, ref.history, live)
	records := make([]*state.Record, len(phases))
	for id, p := range phases {
		r := ref.history.Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		list := p
		if s.Alive && r != nil && r.Forgotten {
			list = forgotten
		}
		s.lists[list] = append(s.lists[list], b.Jobs[id].Name)
		if records[id] = r; r != nil && r.State == state.Succeeded && p.Ended() && r.Seconds > 0 {
			s.took[p] = append(s.took[p], r.Seconds)
		}
		if r != nil && p.Bad() && r.Time.Before(s.LastRun) {
			s.earlier = append(s.earlier, b.Jobs[id].Name)
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

// phases returns the phase of each job. The ledger does not tell which jobs a live run has yet
// to run; it counts those that have been added to their files since the run read them.
func (s *status) phases(b *jobspec.Batch, h *state.History, live *schema.Status) []state.Phase {
	phases := sched.Phases(b, h)
	if live == nil {
		return phases
	}
	told := map[place]schema.State{}
	for i := range live.Jobs {
		told[placeOf(&live.Jobs[i])] = live.Jobs[i].State
	}
	for id := range phases {
		j := &b.Jobs[id]
		switch p, known := told[place{b.Files[j.File].Real, j.Key.String(), j.Name}]; {
		case p != "":
			phases[id] = p.Phase()
		case known: // it was not selected
			phases[id] = state.Pending
		default:
			s.Counts[phases[id]]++
		}
	}
	return phases
}
