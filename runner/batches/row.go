package batches

import (
	"cmp"

	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// Row describes a batch. A live run is asked; otherwise, the ledger tells.
func (ref *Ref) Row() (row schema.BatchRow, counts map[state.Phase]int) {
	if err := ref.Read(); err != nil {
		row.StateDir, row.Files, row.Error = ref.Dir, []schema.File{{Path: ref.Real}}, schema.Known(err.Error())
		return row, nil
	}
	ref.unread()
	row.Batch, row.Run = ref.Describe(), describeRun(ref)
	if ref.Alive {
		row.Run = liveRun(ref, row.Run, nil)
		if rep, err := ref.Ask(control.Request{Op: control.OpStatus}); err == nil && rep.Snapshot != nil {
			counts, row.Run.Phase = rep.Snapshot.Counts, phaseOf(rep)
		}
	}
	if counts == nil {
		ref.Settle()
		counts = map[state.Phase]int{}
		for _, p := range sched.Phases(ref.Batch, ref.History) {
			counts[p]++
		}
	}
	row.Counts = schema.CountsOf(counts)
	row.Outcome = schema.Known(schema.OutcomeOf(row.Run, row.Counts))
	return row, counts
}

// phaseOf returns what a run that has answered is doing.
func phaseOf(r control.Reply) *schema.RunPhase {
	return schema.Known(cmp.Or(r.Phase, schema.RunRunning)) // earlier versions do not say
}
