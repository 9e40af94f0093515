package batches

import (
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// marked maps each operation to the verdict of jobs that it would not change.
var marked = map[string]schema.PlanCode{control.OpDone: schema.PlanUpToDate, control.OpForget: schema.PlanForgotten}

// Unrecorded explains why a job whose end the ledger lacks cannot be forgotten or marked as done:
// its end would override the mark, as the end of a running job would.
const Unrecorded = "not changed, because its end is not recorded yet (its run was killed)"

// Mark records jobs as done or forgotten in the ledger of a batch that is not running.
func (ref *Ref) Mark(req control.Request) (rep control.Reply, err error) {
	ref.More = nil
	if err := ref.recall(); err != nil {
		return rep, err
	}
	batch, err := ref.Reload(ref.run.Params, ref.Files()...)
	if err != nil {
		return rep, err
	}
	history := ref.History
	own := batch.Jobs[:batch.Files[0].Count] // jobs of this file, which come first
	in, err := Match(&jobspec.Batch{Files: batch.Files[:1], Jobs: own}, req.Jobs)
	if len(batch.Params) > 0 {
		ref.Note("using the jobs of the last run, started with" + ParamFlags(batch.Params))
	}
	if err != nil {
		return rep, err
	}
	st, err := ref.Lock([]string{ref.Real}, "")
	if err != nil {
		return rep, err
	}
	at := sched.Now{Wall: time.Now().UTC()}
	if ref.Batch = batch; len(ref.More) == 0 {
		ref.History = st.History()
	}
	open := map[string]string{} // by key: why the job of an open attempt cannot be marked
	for _, at := range ref.History.Attempts() {
		open[at.Start.Key] = runner.StillRuns
	}
	for _, f := range settle(batch, history, ref.Folder, false).ended {
		if open[f.Key] != "" {
			open[f.Key] = Unrecorded
		}
	}
	verdicts, facts := ref.verdicts(), []state.Fact(nil)
	for id := range in {
		j := &batch.Jobs[id]
		if !in[id] {
			continue
		}
		if verdicts[id].Code == marked[req.Op] {
			rep.Keep(runner.Already[req.Op], j.Name)
			continue
		}
		if why := open[j.Key.String()]; why != "" {
			rep.Keep(why, j.Name)
			continue
		}
		lacks := files.Lacks(batch, j)
		if lacks != "" && req.Op == control.OpDone && !req.Without {
			rep.Refuse(lacks, j.Name)
			continue
		}
		fact := sched.ForgetFact(j.Name, j.Key.String(), at)
		if req.Op == control.OpDone {
			fact = sched.DoneFact(j.Name, j.Key.String(), at, req.Without)
			if lacks != "" {
				fact.Confirm(ref.History.Of(0, j.Key.String()))
			}
		}
		facts = append(facts, fact)
	}
	err = write(st, facts, &rep)
	return rep, err
}

// write appends facts to the ledger of a batch without a run, and unlocks it.
func write(st *disk.State, facts []state.Fact, rep *control.Reply) error {
	n, err := st.Append(0, facts...)
	for _, f := range facts[:n] {
		rep.Done = append(rep.Done, f.Job)
	}
	if closed := st.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return StateFailure(err)
	}
	return nil
}
