package cli

import (
	"fmt"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/engine/local"
	"gpurun/state"
	"gpurun/state/disk"
)

type forgetCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
}

// Help shows how the command is used.
func (forgetCmd) Help() string {
	return `Nothing is deleted, neither lines of the ledger nor logs nor outputs.

Examples:

    gpurun forget train-cifar10-s42
    gpurun forget --file jobs.yaml '*-s42'`
}

// Run marks jobs as not done.
func (c *forgetCmd) Run(a *app) error { return a.mark(&c.batchFlag, control.OpForget, c.Jobs) }

type doneCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
}

// Help shows how the command is used.
func (doneCmd) Help() string {
	return `For jobs whose work was done before gpurun, or by hand.

Examples:

    gpurun done train-cifar10-s42
    gpurun done --file jobs.yaml 'train-*'`
}

// Run marks jobs as done.
func (c *doneCmd) Run(a *app) error { return a.mark(&c.batchFlag, control.OpDone, c.Jobs) }

// mark records what a person says of jobs: through the run, if there is one, else
// in the ledger itself, under its lock.
func (a *app) mark(f *batchFlag, op string, globs []string) error {
	ref, err := a.change(f, globs)
	if err != nil {
		return err
	}
	return a.request(ref, control.Request{Op: op, Jobs: globs}, markWords[op], func() error { return a.markDead(ref, op, globs) })
}

var markWords = map[string]string{control.OpDone: "recorded as done", control.OpForget: "runs again next time"}

// markDead appends the facts to the ledger of a batch that nobody runs.
func (a *app) markDead(ref *batchRef, op string, globs []string) error {
	batch, ps := jobspec.Load([]string{ref.file}, a.options(&batchFlags{}))
	if len(ps) > 0 {
		return problems(ps)
	}
	in, err := matching(batch, globs)
	if err != nil {
		return err
	}
	st, err := disk.Open([]string{ref.real}, disk.Options{StateDir: a.global.StateDir, Recover: local.Recover, Go: a.goSafely})
	if err != nil {
		return stateFailure(err)
	}
	var names []string
	for id := range batch.Jobs {
		if in[id] {
			if err := st.Append(0, markFact(&batch.Jobs[id], op, time.Now().UTC())); err != nil {
				st.Close()
				return stateFailure(err)
			}
			names = append(names, batch.Jobs[id].Name)
		}
	}
	if err := st.Close(); err != nil {
		return stateFailure(err)
	}
	fmt.Fprintln(a.out, ref.name()+": "+reached(names, markWords[op]))
	return nil
}

// markFact is what the ledger says of it.
func markFact(j *jobspec.Job, op string, at time.Time) state.Fact {
	if op == control.OpForget {
		return state.Fact{Kind: state.KindForget, Time: at, Job: j.Name, Key: j.Key.String()}
	}
	return state.Fact{Kind: state.KindEnd, Time: at, Job: j.Name, Key: j.Key.String(), State: state.Succeeded, By: "done"}
}
