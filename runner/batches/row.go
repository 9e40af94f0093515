package batches

import (
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state/schema"
)

// Row describes a batch. A live run is asked; otherwise, the ledger tells.
func (ref *Ref) Row() (row schema.BatchRow) {
	if err := ref.Read(); err != nil {
		row.StateDir, row.Files, row.Error = ref.Dir, []schema.File{{Path: ref.Real}}, schema.Known(err.Error())
		return row
	}
	ref.unread()
	row.Batch, row.Run = ref.Describe(), describeRun(ref)
	if ref.Alive {
		row.Run = liveRun(ref, row.Run, nil)
		if rep, err := ref.Ask(control.Request{Op: control.OpStatus}); err == nil {
			row.Counts, row.Run.Phase = rep.Status.Counts, rep.Status.Run.Phase
		}
	}
	if row.Counts == nil {
		ref.Settle()
		row.Counts = schema.CountsOf(nil)
		for _, p := range sched.Phases(ref.Batch, ref.History) {
			row.Counts[p]++
		}
	}
	row.Outcome = schema.Known(schema.OutcomeOf(row.Run, row.Counts))
	return row
}
