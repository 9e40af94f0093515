package cli

import (
	"fmt"
	"strings"

	"gpurun/runner/batches"
	"gpurun/runner/control"
)

type pauseCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs; none pauses the whole run."`
}

// Help returns the command's description and examples.
func (pauseCmd) Help() string {
	return `Running jobs go on. A queue waits for a paused job of it. The pause ends with the run.

Examples:

    gpurun pause                   nothing more starts for now
    gpurun pause 'train-*-s42'     none of these starts
    gpurun resume`
}

// Run keeps jobs from starting.
func (c *pauseCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpPause, Jobs: c.Jobs}, "paused", "paused")
}

type resumeCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs; none resumes the whole run."`
}

// Help returns the command's description and examples.
func (resumeCmd) Help() string {
	return `Undoes gpurun pause and gpurun stop --drain. Jobs that were paused by name are resumed by name.

Examples:

    gpurun resume
    gpurun resume 'train-*-s42'`
}

// Run lets jobs start again.
func (c *resumeCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpResume, Jobs: c.Jobs}, "resumed", "resumed")
}

type retryCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
}

// Help returns the command's description and examples.
func (retryCmd) Help() string {
	return `Those that failed for good get all their retries again; those that wait for a retry start as soon as there is room. What could not run because of them runs after them. Without a run, gpurun FILE tries failed jobs again anyway.

Examples:

    gpurun retry train-cifar10-s42
    gpurun retry '*'               all that failed`
}

// Run has failed jobs start again.
func (c *retryCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpRetry, Jobs: c.Jobs}, "starting again", "retried")
}

type setCmd struct {
	batchFlag `embed:""`
	Values    []string `arg:"" name:"key=value" help:"Settings, spelled as in the job file, e.g. max_concurrent=4; with --job, keys of jobs, e.g. gpu_memory=30GiB or before=JOB."`
	Job       []string `placeholder:"GLOB" sep:"none" help:"The jobs that change (repeatable)."`
}

// Help returns the command's description and examples.
func (setCmd) Help() string {
	return `Holds until the run ends; the job file stays as it is. Running jobs go on as they are.

With --job, these can be set: gpus, gpu_memory, max_util, timeout, retry, priority (a number, first or last), and before=JOB or after=JOB, which need the same priority and queue. A retry goes by what is set, too, and gpurun reload leaves it on top.

Examples:

    gpurun set max_concurrent=4
    gpurun set gpu_ids=0,1 hours=20:00-08:00
    gpurun set --job 'train-*-s42' priority=first
    gpurun set --job train-7 gpu_memory=30GiB timeout=6h before=train-3`
}

// Run changes settings of a run.
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

// steer asks a run to go on in another way. Without one there is nothing to steer: done says
// what cannot be done then.
func (a *app) steer(f *batchFlag, req control.Request, said, done string) error {
	return a.request(f, req, said, func(ref *batches.Ref) error {
		return &batches.Failure{Code: batches.ExitState, Text: ref.Name() + " is not running: nothing was " + done, Hint: ref.Command() + " runs what is not done"}
	})
}

type reloadCmd struct {
	batchFlag `embed:""`
}

// Help returns the command's description and examples.
func (reloadCmd) Help() string {
	return `New jobs join the run, and those that are gone leave it; one that has changed is another job. What runs goes on. Jobs that failed run again only if they have changed. If the files have mistakes, nothing changes, and the mistakes are shown as gpurun check shows them. The run keeps its flags, and what gpurun set changed. SIGUSR1 to the run does the same.

Example:

    gpurun reload --file jobs.yaml`
}

// Run has a run read its files again.
func (c *reloadCmd) Run(a *app) error {
	return a.steer(&c.batchFlag, control.Request{Op: control.OpReload}, "", "read again")
}
