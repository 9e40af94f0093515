package batches

import (
	"cmp"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/sched"
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
	ref.Batch, ref.former = known(ref), true
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

// Row describes a batch. It asks the live run, or else reads the ledger.
func (ref *Ref) Row() (row schema.BatchRow) {
	if err := ref.Read(); err != nil {
		row.StateDir, row.Files, row.Error = ref.Dir, []schema.File{{Path: ref.Real}}, schema.Known(err.Error())
		return row
	}
	ref.unread()
	row.Batch = ref.Describe()
	st := &schema.Status{Head: schema.At(time.Now()), Run: describeRun(ref)}
	if ref.Alive {
		st = ref.brief(liveRun(ref, st.Run, nil))
	}
	if st.Counts == nil {
		ref.Settle()
		st.Counts = schema.CountsOf(nil)
		var failed []*schema.Job
		for id, p := range sched.Phases(ref.Batch, ref.History) {
			st.Counts[p]++
			if !p.Bad() {
				continue
			}
			j := &ref.Batch.Jobs[id]
			if r := ref.History.Of(j.File, j.Key.String()); r != nil {
				failed = append(failed, schema.EndedJob(j.Name, p, r))
			}
		}
		st.Alike, _ = schema.Failures(failed)
	}
	sum(&row, st)
	return row
}

// brief asks a live run for a status without jobs. If the run does not answer, the status has no
// counts.
func (ref *Ref) brief(run *schema.Run) *schema.Status {
	st := &schema.Status{Head: schema.At(time.Now()), Run: run}
	if rep, err := ref.Ask(control.Request{Op: control.OpStatus}); err == nil {
		*st, run.Phase = *rep.Status, rep.Status.Run.Phase
		st.Run = run
	}
	return st
}

func sum(row *schema.BatchRow, st *schema.Status) {
	st.Sum()
	row.Run, row.Counts, row.Outcome, row.Tally, row.Line = st.Run, st.Counts, &st.Outcome, &st.Tally, &st.Line
}

// Folder returns the state folder of one of the batch's files.
func (ref *Ref) Folder(i int) string { return disk.Folder(ref.Files()[i], ref.StateDir) }

// known returns a batch of the jobs in the ledgers, for a job file that is gone or has errors. Of
// jobs with the same name, it includes only the one that ended last, because the others are earlier
// versions.
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
