package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/engine/procs"
	"gpurun/runner/sched"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

type waitCmd struct {
	batchFlag `embed:""`
	Jobs      []string  `arg:"" optional:"" name:"job" help:"Jobs or globs to wait for (default: the whole run)."`
	Timeout   *timeFlag `placeholder:"TIME" help:"Give up after this long, e.g. 50s or 2h, with exit status 75."`
}

func (waitCmd) Help() string {
	return helpText("Exits with the run's status, or with 75 if --timeout passes first.",
		"gpurun wait --file jobs.yaml",
		"gpurun wait 'train-*' --timeout 50s")
}

// The first and the longest pause between checks. The first is short, since a job may end soon.
const (
	waitFirst = 20 * time.Millisecond
	waitMost  = 500 * time.Millisecond
)

// Run waits until a run or some of its jobs have ended.
func (c *waitCmd) Run(a *app) error {
	ref, err := a.FindToChange(c.File)
	if err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	began := time.Now()
	for pause := waitFirst; ; pause = min(2*pause, waitMost) {
		ref.Look()
		left, err := c.remaining(a, ref)
		if err != nil || left == "" {
			return err
		}
		if c.Timeout != nil {
			rest := time.Duration(*c.Timeout) - time.Since(began)
			if rest <= 0 {
				fmt.Fprintln(a.out, ref.Name()+": not yet: "+left)
				return batches.Exit(batches.ExitNotYet)
			}
			pause = min(pause, rest)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// remaining describes what has not ended yet. Once everything has, it returns "" and the exit
// status as an error.
func (c *waitCmd) remaining(a *app, ref *batches.Ref) (string, error) {
	switch {
	case len(c.Jobs) > 0 && ref.Alive:
		return c.remainingLive(a, ref)
	case ref.Alive && ref.Runner.Here && procs.Stopped(ref.Runner.PID):
		return "the run is stopped: " + ref.Silent(nil).Error(), nil
	case ref.Alive:
		return "the run is still active", nil
	}
	if err := ref.Read(); err != nil {
		return "", err
	}
	s := ref.Progress()
	left, err := "", error(nil)
	switch n := len(s.In(state.Running, state.Queued)); {
	case len(c.Jobs) > 0:
		left, err = c.remainingDead(a, ref)
	case n > 0:
		left = fmt.Sprintf("its run has ended, but %s %s still running", state.Count(n, "job"), map[bool]string{true: "is", false: "are"}[n == 1])
	default:
		fmt.Fprintln(a.out, terminal.CleanText(ref.Name()+": "+s.Line))
		return "", batches.Exit(s.Exit())
	}
	if away := ref.Settle().Away; left != "" && len(away) > 0 {
		where := slices.Sorted(maps.Values(away))[0]
		return "", &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("%s: its run has ended, but its jobs may still be running on %s, and gpurun cannot check from here", ref.Name(), where), Hint: "run this command on " + where}
	}
	return left, err
}

// remainingLive asks the run for the state of the jobs. If the run does not answer, wait asks again
// later.
func (c *waitCmd) remainingLive(a *app, ref *batches.Ref) (string, error) {
	rep, err := ref.Ask(control.Request{Op: control.OpWait, Jobs: c.Jobs, File: c.only(ref)})
	var silent *batches.Failure
	switch {
	case errors.As(err, &silent) && !ref.Runner.Here:
		return "", &batches.Failure{Code: batches.ExitState, Text: ref.Name() + " is running, but gpurun cannot reach it: " + silent.Text, Hint: silent.Hint, Err: err}
	case errors.As(err, &silent):
		return "the run does not answer: " + silent.Text, nil
	case errors.Is(err, control.ErrNoRun):
		return "the run is ending", nil
	case err != nil:
		return "", &batches.Failure{Code: batches.ExitUsage, Text: ref.Name() + ": " + err.Error(), Err: err}
	}
	return printEnds(a, ref, rep.Jobs)
}

// remainingDead reads the ledger. It returns an error for a job that has not run, because no run is
// active to start it.
func (c *waitCmd) remainingDead(a *app, ref *batches.Ref) (string, error) {
	phases := sched.Phases(ref.Batch, ref.History)
	name := func(id int) string { return ref.Batch.Jobs[id].Name }
	var all []int
	for id := range phases {
		if c.only(ref) == "" || ref.Batch.Jobs[id].File == 0 {
			all = append(all, id)
		}
	}
	found, err := runner.MatchJobs(c.Jobs, len(all), func(i int) string { return name(all[i]) })
	if err != nil {
		return "", &batches.Failure{Code: batches.ExitUsage, Text: ref.Name() + ": " + err.Error(), Err: err}
	}
	var jobs []*schema.Job
	for _, i := range found {
		id := all[i]
		if p := phases[id]; p == state.Pending || p == state.Waiting {
			return "", &batches.Failure{Code: batches.ExitFailed, Text: fmt.Sprintf("%s: %s is %s, and no run is active to start it", ref.Name(), name(id), p), Hint: ref.Command() + " runs it"}
		}
		jobs = append(jobs, &schema.Job{Name: name(id), State: phases[id]})
	}
	return printEnds(a, ref, jobs)
}

// printEnds returns which jobs have not ended. If all have ended, it prints how they ended, and
// returns the exit status.
func printEnds(a *app, ref *batches.Ref, jobs []*schema.Job) (string, error) {
	var left []string
	counts, code := map[state.Phase]int{}, batches.ExitDone
	for _, j := range jobs {
		p := j.State
		counts[p]++
		switch {
		case p == "":
			return "", &batches.Failure{Code: batches.ExitFailed, Text: ref.Name() + ": " + j.Name + " is not part of this run"}
		case !p.Ended():
			left = append(left, fmt.Sprintf("%s is %s", j.Name, p))
		case p == state.Interrupted && code == batches.ExitDone:
			code = batches.ExitTerm
		case p.Bad():
			code = batches.ExitFailed
		}
	}
	if n := len(left); n > 3 {
		left = append(left[:3], fmt.Sprintf("and %d more", n-3))
	}
	if left == nil {
		fmt.Fprintln(a.out, ref.Name()+": "+schema.TallyOf(counts, false).String())
		return "", batches.Exit(code)
	}
	return strings.Join(left, ", "), nil
}
