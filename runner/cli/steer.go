package cli

import (
	"fmt"
	"strings"

	"gpurun/runner/batches"
	"gpurun/runner/control"
)

type pauseCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs to pause (default: the whole run)."`
}

func (pauseCmd) Help() string {
	return helpText("Running jobs continue; the pause ends with the run.",
		"gpurun pause                   # start no more jobs for now",
		"gpurun pause 'train-*-s42'     # hold these jobs",
		"gpurun resume")
}

func (c *pauseCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpPause, Jobs: c.Jobs}, "paused", "paused")
}

type resumeCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs to resume (default: the whole run)."`
}

func (resumeCmd) Help() string {
	return helpText("Jobs that you paused by name must be resumed by name.",
		"gpurun resume",
		"gpurun resume 'train-*-s42'")
}

func (c *resumeCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpResume, Jobs: c.Jobs}, "resumed", "resumed")
}

type retryCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
}

func (retryCmd) Help() string {
	return helpText("The jobs get all their retries again, and their dependents run afterwards.",
		"gpurun retry train-cifar10-s42",
		"gpurun retry '*'               # all that failed")
}

func (c *retryCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpRetry, Jobs: c.Jobs}, "starting again", "retried")
}

type setCmd struct {
	batchFlag `embed:""`
	Values    []string `arg:"" name:"key=value" help:"Settings, e.g. max_concurrent=4; with --job, job keys, e.g. gpu_memory=30GiB or before=JOB."`
	Job       []string `placeholder:"GLOB" sep:"none" help:"Change these jobs, not the run (repeatable)."`
}

func (setCmd) Help() string {
	return helpText("The changes last until the run ends; running jobs and the job file are not affected.",
		"gpurun set max_concurrent=4",
		"gpurun set gpu_ids=0,1 hours=20:00-08:00",
		"gpurun set --job 'train-*' gpu_memory=30GiB priority=first")
}

func (c *setCmd) Run(a *app) error {
	req := control.Request{Op: control.OpSet, Jobs: c.Job, Set: map[string]string{}}
	for _, v := range c.Values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("%q is not KEY=VALUE", v), Hint: "e.g. gpurun set max_concurrent=4"}
		}
		req.Set[strings.ReplaceAll(key, "-", "_")] = value
	}
	return a.steer(&c.batchFlag, req, "changed", "changed")
}

// steer sends a request that changes what a run does. If there is no run, it returns a failure.
// done is the participle in that failure's message, as in "nothing was paused".
func (a *app) steer(f *batchFlag, req control.Request, said, done string) error {
	return a.request(f, req, said, func(ref *batches.Ref) error {
		return &batches.Failure{Code: batches.ExitState, Text: ref.Name() + " is not running: nothing was " + done, Hint: ref.Command() + " runs unfinished jobs; with --no-prune, also pruned ones"}
	})
}

type reloadCmd struct {
	batchFlag `embed:""`
}

func (reloadCmd) Help() string {
	return helpText("New jobs join the run, removed ones leave it, and running ones continue.",
		"gpurun reload --file jobs.yaml")
}

func (c *reloadCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpReload}, "", "reread")
}
