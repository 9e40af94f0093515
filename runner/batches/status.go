package batches

import (
	"cmp"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// unread returns why the jobs of a batch are not those of its files, which have errors or
// are gone: then they are those in its ledgers. "" if they can be read.
func (ref *Ref) unread() string {
	if ref.Batch != nil && len(ref.Batch.Params) == 0 && len(ref.run.Params) > 0 {
		return ref.Name() + " no longer takes" + ParamFlags(ref.run.Params) + "; these are its own values"
	}
	if ref.Batch != nil {
		return ""
	}
	ref.Batch = known(ref)
	if !host.Exists(ref.Real) {
		return ref.Name() + " is gone; these are the jobs in its ledger"
	}
	return ref.Name() + " has errors (gpurun check " + ref.Name() + " shows them); these are the jobs in its ledger"
}

// Status returns the status for programs. It asks the run, and reads the rest from the
// ledger; all of it if there is no run or it does not answer.
func (ref *Ref) Status() *schema.Status {
	st, _ := ref.statusAfter()
	return st
}

// statusAfter is Status, and says how the attempts have fared that the ledger left open.
func (ref *Ref) statusAfter() (st *schema.Status, m aftermath) {
	unread := ref.unread()
	rep, err := ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	if err != nil || rep.Status == nil {
		m = ref.Settle()
		rep.Status = nil
	}
	st = ref.Document(rep.Status, m)
	st.Alike, _ = st.Failures()
	if ref.Alive && !ref.past && err != nil {
		st.Warnings = append(st.Warnings, schema.Problem{Code: "silent", Text: "the run does not answer: " + err.Error() + "; this is from its ledger"})
	}
	if unread != "" {
		st.Warnings = append(st.Warnings, schema.Problem{Code: schema.JobFileProblem, Text: unread})
	}
	return st, m
}

// Folder returns the state folder of one of the batch's files.
func (ref *Ref) Folder(i int) string { return disk.Folder(ref.Files()[i], ref.StateDir) }

// known returns a batch of the jobs in the ledgers, for a job file that is gone or now
// has errors.
func known(ref *Ref) *jobspec.Batch {
	b := &jobspec.Batch{}
	for _, f := range ref.Files() {
		b.Files = append(b.Files, jobspec.File{Path: Shown(f), Real: f})
	}
	records := slices.SortedFunc(ref.History.Records(), func(x, y *state.Record) int {
		return cmp.Or(cmp.Compare(x.Ledger, y.Ledger), cmp.Compare(x.StartSeq, y.StartSeq), cmp.Compare(x.EndSeq, y.EndSeq))
	})
	for _, r := range records {
		addJob(b, r.Job, r.Ledger, r.Key)
	}
	return b
}

// snapshot returns what the ledger has and what was found since, without a run to ask.
func (m aftermath) snapshot(ref *Ref) state.Snapshot {
	s := state.Snapshot{At: time.Now().UTC(), Running: []state.View{}, Total: len(ref.Batch.Jobs), Counts: map[state.Phase]int{}}
	for _, at := range ref.History.Attempts() {
		v := state.View{
			Job: at.Start.Job, ID: -1, UniID: at.Start.UniID, Attempt: at.Start.Attempt, Phase: state.Running, Started: at.Start.Time,
			GPUs: append([]int{}, at.Start.GPUs...), Memory: at.Start.Memory, Close: at.Start.Close, Used: -1, Log: at.Start.Log, Stop: at.Stop,
		}
		if at.Running != nil && at.Running.Host != "" {
			v.Started, v.Host, v.GPUs = at.Running.Time, at.Running.Host, append([]int{}, at.Running.GPUs...)
		} else if at.Start.Engine != "" && !m.found[v.UniID].Began {
			v.Phase = state.Queued
		}
		if v.PID = m.found[v.UniID].PID; v.PID == 0 && at.Running != nil {
			v.PID = at.Running.PID
		}
		if !ref.Alive {
			v.Note = m.words(at)
		}
		s.Running = append(s.Running, v)
	}
	for _, p := range sched.Phases(ref.Batch, ref.History) {
		s.Counts[p]++
	}
	return s
}
