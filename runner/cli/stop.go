package cli

import (
	"errors"
	"fmt"
	"strings"

	"gpurun/runner"
	"gpurun/runner/control"
)

type stopCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs to be cancelled; none for the whole run."`
	GPU       *int     `name:"gpu" placeholder:"N" help:"End and requeue what stands on GPU N, and leave it alone from then on."`
	Drain     bool     `help:"Start nothing more, let running jobs end."`
}

// Help shows how the command is used.
func (stopCmd) Help() string {
	return `Cancelled jobs are not retried; they run next time.

Examples:

    gpurun stop                    the whole run
    gpurun stop 'train-*-s42'      these jobs
    gpurun stop --gpu 5            GPU 5 is wanted back; its jobs run elsewhere
    gpurun stop --drain            nothing more starts`
}

// Run asks the run to stop.
func (c *stopCmd) Run(a *app) error {
	n := 0
	for _, given := range []bool{len(c.Jobs) > 0, c.GPU != nil, c.Drain} {
		if given {
			n++
		}
	}
	if n > 1 {
		return &failure{code: exitUsage, text: "JOB, --gpu and --drain are different stops: give one of them"}
	}
	ref, err := a.change(&c.batchFlag, c.Jobs)
	if err != nil {
		return err
	}
	return a.request(ref, c.request(), c.said(), func() error { return c.dead(a, ref) })
}

// said is what the run does then.
func (c *stopCmd) said() string {
	switch {
	case c.GPU != nil:
		return fmt.Sprintf("GPU %d is given back and left alone from now on", *c.GPU)
	case c.Drain:
		return "nothing more starts"
	case len(c.Jobs) > 0:
		return "cancelled"
	}
	return "the run is being stopped"
}

func (c *stopCmd) request() control.Request {
	switch {
	case c.GPU != nil:
		return control.Request{Op: control.OpStopGPU, GPU: *c.GPU}
	case c.Drain:
		return control.Request{Op: control.OpDrain}
	}
	return control.Request{Op: control.OpStop, Jobs: c.Jobs}
}

// request asks the run of a batch for something, and says what it does then;
// without a run, dead is done.
func (a *app) request(ref *batchRef, req control.Request, said string, dead func() error) error {
	rep, err := ref.ask(req)
	var silent *silentError
	switch {
	case errors.Is(err, control.ErrNoRun):
		return dead()
	case rep.Err != "":
		return &failure{code: exitUsage, text: ref.name() + ": " + rep.Err, err: err}
	case errors.As(err, &silent):
		return &failure{code: exitState, text: ref.name() + " is running and was not reached: " + silent.why, hint: silent.cure, err: err}
	case err != nil:
		return &failure{code: exitState, text: ref.name() + ": the run does not answer: " + err.Error(), err: err}
	}
	return a.tell(ref, rep, said, len(req.Jobs) > 0)
}

// change is the one batch that a command changes. A job file among the jobs is a slip.
func (a *app) change(f *batchFlag, jobs []string) (*batchRef, error) {
	if err := noFiles(jobs); err != nil {
		return nil, err
	}
	refs, err := a.find(f.File, toChange)
	if err != nil {
		return nil, err
	}
	return refs[0], nil
}

// tell prints what was done to which jobs, and which were left as they are. To
// have done nothing, because all of them run, is a failure.
func (a *app) tell(ref *batchRef, rep control.Reply, said string, named bool) error {
	if !named || len(rep.Done) > 0 {
		fmt.Fprintln(a.out, ref.name()+": "+reached(rep.Done, said))
	}
	if err := refusal(ref, rep.Kept); err != nil {
		return err
	}
	for _, k := range rep.Kept {
		if k.Why == runner.StillRuns && len(rep.Done) == 0 {
			return &failure{code: exitUsage, text: ref.name() + ": " + reached(k.Jobs, k.Why), hint: "wait for its end, or gpurun stop it first"}
		}
		fmt.Fprintln(a.out, ref.name()+": "+reached(k.Jobs, k.Why))
	}
	return unheard(ref, rep.Silent, "the run stops its jobs as soon as it answers")
}

// unheard is the failure of a request that keepers must carry out that do not
// answer, or nil.
func unheard(ref *batchRef, silent []string, hint string) error {
	if len(silent) == 0 {
		return nil
	}
	return &failure{code: exitState, text: ref.name() + ": not all jobs were reached: " + strings.Join(silent, "; "), hint: hint}
}

// reached is "cancelled: a, b, …".
func reached(jobs []string, said string) string {
	if len(jobs) == 0 {
		return said
	}
	if n := len(jobs); n > 10 {
		return fmt.Sprintf("%s: %s and %d more", said, strings.Join(jobs[:10], ", "), n-10)
	}
	return said + ": " + strings.Join(jobs, ", ")
}
