package batches

import (
	"cmp"
	"slices"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// unread returns a note if the job files no longer accept the run's -p values, have errors or no
// longer exist; else "". If the files could not be read, unread sets ref.Batch from the ledgers.
func (ref *Ref) unread() string {
	if ref.Batch != nil && len(ref.Batch.Params) == 0 && len(ref.run.Params) > 0 {
		return ref.Name() + " no longer accepts" + ParamFlags(ref.run.Params) + "; showing the values in the job file"
	}
	if ref.Batch != nil {
		return ""
	}
	ref.Batch = known(ref)
	if !host.Exists(ref.Real) {
		return ref.Name() + " no longer exists; showing the jobs in its ledger"
	}
	return ref.Name() + " has errors (gpurun check " + shellescape.Quote(ref.Name()) + " lists them); showing the jobs in its ledger"
}

// Status returns the status for programs. It asks the run and reads the rest from the ledger, or
// everything if no run answers.
func (ref *Ref) Status() *schema.Status {
	m, unread := openAttempts{}, ref.unread()
	rep, err := ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	if err != nil {
		m = ref.Settle()
		rep.Status = nil
	}
	st := ref.Document(rep.Status, rep.Partial, m)
	if ref.Alive && !ref.past && err != nil {
		st.Warnings = append(st.Warnings, schema.Problem{Code: "silent", Text: "the run does not answer: " + err.Error() + "; showing its ledger"})
	}
	if unread != "" {
		st.Warnings = append(st.Warnings, schema.Problem{Code: schema.JobFileProblem, Text: unread})
	}
	return st
}

// Folder returns the state folder of one of the batch's files.
func (ref *Ref) Folder(i int) string { return disk.Folder(ref.Files()[i], ref.StateDir) }

// known returns a batch of the jobs in the ledgers, for a job file that is gone or has errors. Of jobs
// with the same name, it has the one that ended last: the others are earlier versions.
func known(ref *Ref) *jobspec.Batch {
	b := &jobspec.Batch{}
	for _, f := range ref.Files() {
		b.Files = append(b.Files, jobspec.File{Path: Shown(f), Real: f})
	}
	records := slices.SortedFunc(ref.History.Records(), func(x, y *state.Record) int {
		return cmp.Or(cmp.Compare(x.Ledger, y.Ledger), cmp.Compare(x.StartSeq, y.StartSeq), cmp.Compare(x.EndSeq, y.EndSeq))
	})
	for _, r := range records {
		if last := ref.History.Named(r.Ledger, r.Job); last != nil && last.EndSeq > r.EndSeq {
			continue
		}
		addJob(b, r.Job, r.Ledger, r.Key)
	}
	return b
}
