package batches

import (
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state/schema"
	"time"
)

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

// sum fills in a row's run and counts from a status.
func sum(row *schema.BatchRow, st *schema.Status) {
	st.Sum()
	row.Run, row.Counts, row.Outcome, row.Tally, row.Line = st.Run, st.Counts, &st.Outcome, &st.Tally, &st.Line
}
