package cli

import (
	"errors"
	"fmt"
	"strings"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/session"
)

type stopCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs to cancel (default: the whole run)."`
	GPU       *int     `name:"gpu" placeholder:"N" help:"Requeue the jobs on GPU N and stop using it."`
	Exec      string   `placeholder:"NAME" help:"Stop the command of gpurun exec --name NAME."`
	Drain     bool     `help:"Start no more jobs, but let running ones finish."`
}

func (stopCmd) Help() string {
	return helpText("Cancelled jobs are not retried; they run next time.",
		"gpurun stop 'train-*-s42'      # these jobs",
		"gpurun stop --gpu 5            # free GPU 5; its jobs run elsewhere",
		"gpurun stop --drain            # start no more jobs")
}

func (c *stopCmd) Run(a *app) error {
	given := 0
	for _, is := range []bool{len(c.Jobs) > 0, c.GPU != nil, c.Drain, c.Exec != ""} {
		if is {
			given++
		}
	}
	req, said := control.Request{Op: control.OpStop, Jobs: c.Jobs}, "stopping the run"
	switch {
	case given > 1:
		return &batches.Failure{Code: batches.ExitUsage, Text: "JOB, --gpu, --drain and --exec do not work together: pass only one"}
	case c.Exec != "":
		if session.StopExec(c.Exec) == 0 { // none runs or waits for GPUs
			return &batches.Failure{Code: batches.ExitUsage, Text: "you have no gpurun exec command named " + c.Exec, Hint: "gpurun gpus and gpurun queue show their names"}
		}
		fmt.Fprintln(a.out, "stopped exec "+c.Exec)
		return nil
	case c.Drain:
		req, said = control.Request{Op: control.OpDrain}, "no more jobs start"
	case c.GPU != nil:
		req, said = control.Request{Op: control.OpStopGPU, GPU: *c.GPU}, fmt.Sprintf("freeing GPU %d: this run no longer uses it", *c.GPU)
	case len(c.Jobs) > 0:
		said = "cancelled"
	}
	return a.request(&c.batchFlag, req, said, func(ref *batches.Ref) error { return c.stopOrphans(a, ref) })
}

// request sends a request to the run of the selected batch and prints the outcome. Without a run,
// it calls dead.
func (a *app) request(f *batchFlag, req control.Request, said string, dead func(ref *batches.Ref) error) error {
	ref, err := a.FindToChange(f.File)
	if err != nil {
		return err
	}
	if !a.allFiles {
		req.File = f.only(ref)
	}
	rep, err := ref.Ask(req)
	switch {
	case errors.Is(err, control.ErrNoRun) && !errors.As(err, new(*batches.Failure)): // a run that is starting or exiting gives a Failure
		return dead(ref)
	case err != nil:
		return ref.Unreached(rep, err)
	}
	return a.printReply(ref, rep, said, len(req.Jobs) > 0)
}

// printReply prints what changed for which jobs, and which jobs are unchanged. It returns a failure if
// nothing changed because all of the jobs are running, or if their ends are not in the ledger.
func (a *app) printReply(ref *batches.Ref, rep control.Reply, said string, named bool) error {
	for _, line := range rep.Messages {
		fmt.Fprintln(a.out, ref.Name()+": "+line)
	}
	if !named && rep.Messages == nil || len(rep.Done) > 0 {
		fmt.Fprintln(a.out, ref.Name()+": "+changedLine(rep.Done, said))
	}
	if err := refusal(ref, rep.Kept); err != nil {
		return err
	}
	hints := map[string]string{
		runner.StillRuns:   "wait for running jobs to end, or run gpurun stop first",
		batches.Unrecorded: ref.Command() + " --skip '*' records how it ended and starts nothing; then try again",
	}
	for _, k := range rep.Kept {
		if hint := hints[k.Why]; hint != "" && len(rep.Done) == 0 {
			return &batches.Failure{Code: batches.ExitFailed, Text: ref.Name() + ": " + changedLine(k.Jobs, k.Why), Hint: hint}
		}
		fmt.Fprintln(a.out, ref.Name()+": "+changedLine(k.Jobs, k.Why))
	}
	return silentFailure(ref, rep.Silent, "the run stops them when their keeper responds")
}

// silentFailure returns the failure for a request when keepers do not answer, or nil.
func silentFailure(ref *batches.Ref, silent []string, hint string) error {
	if len(silent) == 0 {
		return nil
	}
	return &batches.Failure{Code: batches.ExitState, Text: ref.Name() + ": cannot reach some jobs: " + strings.Join(silent, "; "), Hint: hint}
}

// changedLine returns "cancelled: a, b, …".
func changedLine(jobs []string, said string) string {
	if len(jobs) == 0 {
		return said
	}
	return said + ": " + jobWords(jobs, 10, len(jobs))
}
