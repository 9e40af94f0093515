package cli

import (
	"fmt"

	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/state"
)

type forgetCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
}

func (forgetCmd) Help() string {
	return helpText("Deletes nothing: the ledger, logs and outputs stay.",
		"gpurun forget train-cifar10-s42",
		"gpurun forget --file jobs.yaml '*-s42'")
}

func (c *forgetCmd) Run(a *app) error {
	return a.marks(&c.batchFlag, control.Request{Op: control.OpForget, Jobs: c.Jobs}, "will run again")
}

type doneCmd struct {
	batchFlag      `embed:""`
	WithoutOutputs bool     `help:"Record jobs with missing outputs too; they count as done until their command changes."`
	From           string   `placeholder:"FILE" help:"Copy successes recorded under FILE, the job file's old name."`
	Jobs           []string `arg:"" optional:"" name:"job" help:"Jobs or globs; with --from, all if none are given."`
}

func (doneCmd) Help() string {
	return helpText("For work done by hand, or under the old name of a renamed job file (--from).",
		"gpurun done train-cifar10-s42",
		"gpurun done --file jobs.yaml 'train-*'",
		"gpurun done --from old.yaml --file new.yaml")
}

func (c *doneCmd) Run(a *app) error {
	switch {
	case c.From != "" && c.WithoutOutputs:
		return &batches.Failure{Code: batches.ExitUsage, Text: "--from and --without-outputs do not work together: use two commands"}
	case c.From != "":
		return c.takeOver(a)
	case len(c.Jobs) == 0:
		return &batches.Failure{Code: batches.ExitUsage, Text: "no jobs given", Hint: "try gpurun done 'train-*', or gpurun done --from old.yaml --file new.yaml for a renamed file"}
	}
	return a.marks(&c.batchFlag, control.Request{Op: control.OpDone, Jobs: c.Jobs, Without: c.WithoutOutputs}, "recorded as done")
}

// takeOver records successes of another job file in a batch's ledger.
func (c *doneCmd) takeOver(a *app) error {
	ref, err := a.FindToChange(c.File)
	if err != nil {
		return err
	}
	old, err := a.Open(c.From)
	if err != nil {
		return err
	}
	rep, err := ref.TakeOver(old, c.Jobs)
	if err != nil {
		return err
	}
	return a.printReply(ref, rep, "copied from "+old.File, true)
}

// marks records that jobs are done or must run again. If there is a run, it asks the run;
// otherwise, it locks the ledger and writes to it. said is what to print about the marked jobs.
func (a *app) marks(f *batchFlag, req control.Request, said string) error {
	return a.request(f, req, said, func(ref *batches.Ref) error {
		rep, err := ref.Mark(req)
		if err != nil {
			return err
		}
		return a.printReply(ref, rep, said, true)
	})
}

// maxRefused is how many refused jobs are named individually.
const maxRefused = 10

// refusal returns a failure that names the refused jobs and the reasons, or nil.
func refusal(ref *batches.Ref, kept []control.Kept) error {
	var lines []string
	for _, k := range kept {
		if k.Refused {
			lines = append(lines, "    "+k.Jobs[0]+": "+k.Why)
		}
	}
	n := len(lines)
	if n == 0 {
		return nil
	}
	if n > maxRefused {
		lines = append(lines[:maxRefused], fmt.Sprintf("    and %d more", n-maxRefused))
	}
	return &batches.Failure{Code: batches.ExitFailed, Text: fmt.Sprintf("%s: %s not recorded as done", ref.Name(), state.Count(n, "job")), Lines: lines,
		Hint: "create the outputs, let the next run create them, or pass --without-outputs to record the jobs anyway"}
}
