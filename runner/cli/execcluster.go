package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/host"
)

// execSettings returns the settings of commands without a job file, from flags and the user's
// defaults.
func (a *app) execSettings() (jobspec.Settings, error) {
	path, _ := batches.UserConfig()
	return jobspec.UserSettings(path, a.settings)
}

// onCluster runs the command on a node of a cluster, using the cluster's queue.
func (c *execCmd) onCluster(a *app, s *jobspec.Settings, argv []string) error {
	dialect := batches.Engines[s.Engine].(cluster.Kind).Dialect
	if err := c.unmapped(s.Engine, dialect.Traits(s.Cluster).Immediate); err != nil {
		return err
	}
	asked := cluster.JobRequest{Request: engine.Request{GPUs: c.GPUs.min, Models: gpu.NamesOf(c.Model).List(), CPUs: int(c.CPUs), Memory: gpu.Bytes(c.Memory), Options: s.Cluster}}
	asked.Limit, _ = source.ParseDuration(s.Cluster["time"]) // already validated
	if c.GPUMemory != defaultNeeds.GPUMemory {
		asked.GPUMemory = gpu.Bytes(c.GPUMemory)
	}
	args, err := dialect.Args(asked)
	if err != nil {
		return &batches.Failure{Code: batches.ExitUsage, Text: err.Error()}
	}
	if !asked.Known() { // a job's task checks this on its node, but gpurun does not run on the node of an exec command
		return &batches.Failure{
			Code: batches.ExitUsage, Text: fmt.Sprintf("-m %s: cluster.models lists no GPU on %s with this much memory", asked.GPUMemory.Asked(), s.Engine),
			Hint: "add models with their memory to cluster.models (see gpurun help models), or remove -m",
		}
	}
	most, by := s.MaxGPUs, "--max-gpus"
	if c.MaxGPUs == "" {
		most, by = -1, "cluster.max_gpus_total"
		if n, err := strconv.Atoi(s.Cluster["max_gpus_total"]); err == nil {
			most = n
		}
	}
	if most >= 0 && c.GPUs.min > most {
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("-g %d exceeds %s (%d)", c.GPUs.min, by, most)}
	}
	if _, refused, err := (cluster.Trial{Args: args}).Try(dialect); err != nil && refused == cluster.Never {
		return &batches.Failure{Code: batches.ExitFailed, Text: s.Engine + ": " + err.Error()}
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	submitted, err := c.untilAllowed(ctx, a, s.Engine, dialect, most, by)
	if err != nil {
		return err
	}
	terminal := term.IsTerminal(int(os.Stdin.Fd())) && a.OutTTY
	name := cluster.NamePrefix(s.Cluster) + "-exec-" + c.Name
	if asked.GPUs > 0 {
		argv = cluster.Guarded(dialect.Traits(s.Cluster).Granted, argv)
	}
	command := dialect.Exec(name, args, argv, terminal)
	path, err := exec.LookPath(command.Args[0])
	if err != nil {
		return session.CannotExecute(command.Args[0], err)
	}
	// Environment variables of an outer cluster job would override the arguments.
	env := append(batches.Clusters.WithoutJob(os.Environ()), command.Env...)
	cmd := &exec.Cmd{Path: path, Args: command.Args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var deaf []os.Signal
	if dialect.Traits(s.Cluster).Deaf {
		deaf = []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	}
	return session.Foreground(a.Process, cmd, stop, func(int) { a.Go(submitted) }, true, deaf...)
}

// unmapped refuses flags that the cluster has no counterpart for.
func (c *execCmd) unmapped(name, immediate string) error {
	for _, k := range []struct {
		is        bool
		flag, fix string
	}{
		{c.Sim != "", "--sim", "remove it, or add --engine local"},
		{c.GPUIDs != "", "--gpu-ids", settings.TheyChoose},
		{c.GPUs.max != c.GPUs.min, "a range of GPUs", "pass a number: -g " + strconv.Itoa(c.GPUs.min)},
		{c.Share, "--share", settings.WholeGPUs},
		{c.MaxUtil != defaultNeeds.MaxUtil, "--max-util", settings.WholeGPUs},
		{c.Others != defaultNeeds.Others, "--others", settings.WholeGPUs},
		{c.Pick != defaultNeeds.Pick, "--pick", settings.TheyChoose},
		{c.NoWait, "--no-wait", immediate},
		{c.MaxWait > 0, "--max-wait", immediate},
	} {
		if k.is {
			return &batches.Failure{Code: batches.ExitUsage, Text: k.flag + " has no equivalent on " + name, Hint: k.fix}
		}
	}
	return nil
}

// untilAllowed waits until the user's jobs, including this one, request no more GPUs in total than
// a limit allows. most is that limit, and by is its name in messages. The caller submits the job
// and then calls submitted, which waits until the cluster lists the job. Until then, no other run
// or command of this user submits jobs under such a limit.
func (c *execCmd) untilAllowed(ctx context.Context, a *app, engine string, dialect cluster.Dialect, most int, by string) (submitted func(), err error) {
	if most < 0 || c.GPUs.min == 0 {
		return func() {}, nil
	}
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	for said := ""; ; {
		lock, err := session.LockOf(engine)
		if err != nil {
			return nil, err
		}
		why, have := "", 0
		if err := host.Flock(lock, unix.LOCK_EX, time.Second); err != nil {
			why = "another of your gpurun processes is submitting a job: " + err.Error()
		} else if have, err = cluster.RequestedGPUs(dialect, u.Username); err != nil {
			return nil, &batches.Failure{Code: batches.ExitFailed, Text: err.Error(), Err: err}
		} else if why = fmt.Sprintf("your jobs on %s already request %s, and %s is %d", engine, state.Count(have, "GPU"), by, most); have+c.GPUs.min <= most {
			return func() {
				defer lock.Close()
				for range 30 { // seconds; normally the cluster lists the job immediately
					if now, err := cluster.RequestedGPUs(dialect, u.Username); err == nil && now > have {
						return
					}
					time.Sleep(time.Second)
				}
			}, nil
		}
		lock.Close()
		if why != said {
			fmt.Fprintln(a.Err, "gpurun: waiting: "+why)
			said = why
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(max(time.Duration(c.Poll), time.Second)):
		}
	}
}
