package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

type execCmd struct {
	gpuFlags  `embed:""`
	simFlag   `embed:""`
	needFlags `embed:""`
	GPUs      countFlag  `name:"gpus" short:"g" default:"1" placeholder:"N" help:"Number of GPUs; 2-4 for at least 2 and up to 4 (${default})."`
	CPUs      uint16     `name:"cpus" placeholder:"N" help:"CPU cores to reserve, among the jobs of all runs here that have GPUs."`
	Memory    memoryFlag `placeholder:"SIZE" help:"Host memory to reserve, likewise."`
	Poll      timeFlag   `default:"5s" placeholder:"TIME" help:"How often to read the GPUs while waiting (${default})."`
	MaxWait   timeFlag   `default:"0s" placeholder:"TIME" help:"Give up after this long and exit with 124 (never)."`
	NoWait    bool       `help:"Exit with 75 if no GPU is free right away."`
	Name      string     `placeholder:"NAME" help:"What gpus, queue and stop --exec call it (the command)."`
	Engine    string     `group:"settings" placeholder:"NAME" help:"Where to run it: local (this host), slurm or sge (a cluster)."`
	Cluster   string     `group:"settings" placeholder:"KEY=VALUE" help:"What only the cluster knows, e.g. partition=gpu,account=vision."`
	MaxGPUs   string     `group:"settings" name:"max-gpus" placeholder:"N" help:"On a cluster: wait until all your jobs there, with this one, ask for at most N GPUs."`
	Command   []string   `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"The command and its arguments."`
}

// Help returns the command's description and examples.
func (execCmd) Help() string {
	return `The command gets the terminal, and gpurun exits with its status: 128 + N after signal N, 127 if it is not found, 126 if it cannot be executed, 124 if the host's max_timeout stopped it.

Examples:

    gpurun exec -- python train.py --lr 1e-3
    gpurun exec -g 2 -m 40GiB -- torchrun --nproc-per-node 2 train.py
    gpurun exec --cpus 8 --memory 32GiB -- python train.py
    gpurun exec --no-wait -- nvidia-smi
    gpurun exec --name notebook -- jupyter lab              gpurun stop --exec notebook ends it
    gpurun exec --engine slurm -g 4 --max-gpus 6 -- bash    on a node of a cluster`
}

// Run waits for GPUs and runs the command on them.
func (c *execCmd) Run(a *app) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return &batches.Failure{Code: batches.ExitUsage, Text: "no command given", Hint: "try gpurun exec -- CMD, e.g. gpurun exec -- python train.py"}
	}
	c.Name = cmp.Or(c.Name, filepath.Base(argv[0]))
	switch s, err := a.execSettings(); {
	case err != nil:
		return err
	case s.Engine != "local":
		return c.onCluster(a, &s, argv)
	case c.MaxGPUs != "":
		return &batches.Failure{Code: batches.ExitUsage, Text: "--max-gpus is about a cluster", Hint: "add --engine slurm; on this host, its owner's rules say how many GPUs you may have (gpurun gpus)"}
	}
	if err := c.fits(batches.Cores(), batches.Memory()); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return cannotExecute(argv[0], err)
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	hold := &execClaim{app: a, job: execWord + c.Name, uniID: fmt.Sprintf("exec-%d-%d", os.Getpid(), time.Now().UnixNano())}
	defer hold.release()
	indexed, err := c.wait(ctx, a, hold)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	env := append(os.Environ(), "GPURUN_UNI_ID="+hold.uniID)
	cmd := &exec.Cmd{Path: path, Args: argv, Env: append(env, hold.grant.Environ(indexed)...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	defer hold.pass()
	return hold.ended(a.foreground(cmd, stop, hold.stand))
}

// execWord is what others see before the name of a command.
const execWord = "exec "

// needs returns what the command is to have of the host.
func (c *execCmd) needs() gpu.HostResources {
	return gpu.HostResources{CPUs: int(c.CPUs), RAM: gpu.Bytes(c.Memory)}
}

// fits refuses more than a host has, and what no claim could say.
func (c *execCmd) fits(cores int, memory gpu.Bytes) error {
	switch need := c.needs(); {
	case need == gpu.HostResources{}:
		return nil
	case c.GPUs.min == 0:
		return &batches.Failure{Code: batches.ExitUsage, Text: "--cpus and --memory are reserved with GPUs, and -g 0 takes none", Hint: "remove them, or write a job file: gpurun init"}
	case cores > 0 && need.CPUs > cores:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("--cpus %d, but this machine has %d", need.CPUs, cores)}
	case memory > 0 && need.RAM > memory:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("--memory %s, but this machine has %s", need.RAM.Asked(), memory.Round())}
	}
	return nil
}

// wait takes readings until GPUs are found and claimed; it reports whether their indices
// are good names for them. It closes the driver before the command starts: an open driver
// blocks a GPU reset.
func (c *execCmd) wait(ctx context.Context, a *app, hold *execClaim) (indices bool, err error) {
	if c.GPUs.min == 0 {
		return true, nil
	}
	source := c.simFlag.source(&c.gpuFlags)
	answered := a.unlessDriverSoon(c.Sim != "" && c.SimHere)
	defer answered()
	if err := source.Check(ctx); err != nil {
		return false, err
	}
	p, err := source.Open(ctx, zerolog.Nop())
	if err != nil {
		return false, err
	}
	defer p.Close()
	rules := session.HostRulesOf(p)
	pool, err := c.pool(p, rules, c.Sim != "", time.Duration(c.Poll), c.NoWait)
	if err != nil {
		return false, err
	}
	a.tellHost(rules)
	req := c.request(c.GPUs)
	if why, ok := pool.Possible(req); !ok {
		return false, &batches.Failure{Code: batches.ExitUsage, Text: why}
	}
	if err := hold.open(p, pool); err != nil {
		return false, err
	}
	began, said := host.Boottime(), ""
	wish := gpu.Wish{Run: session.RunID(), UID: host.Me(), Name: hold.job, Since: time.Now(), Used: pool.Used(host.Me())}
	told := time.Duration(0)
	defer hold.engine.Claims.Wish(gpu.Wish{})
	for {
		snap := session.Observe(ctx, p, rules, hold.engine.Claims, a.Warn)
		answered()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		pool.Observe(snap)
		asks := asking(pool, req, c.needs())
		news := !reflect.DeepEqual(asks, wish.Asks) || snap.At >= told+wishAgain
		wish.Asks = asks
		pool.Turns.Want(wish)
		ok, why, pause := c.try(ctx, pool, req, snap, hold)
		if !ok && news && !c.NoWait {
			hold.engine.Claims.Wish(wish)
			told = snap.At
		}
		waited := host.Boottime() - began
		switch {
		case ok:
			if note := pool.Note(snap.At, req, hold.grant); note != "" {
				fmt.Fprintln(a.Err, "gpurun: "+note)
			}
			hold.rules = session.HostRules{HostRules: pool.Host()}
			return session.Indexed(p), nil
		case c.NoWait:
			return false, &batches.Failure{Code: batches.ExitNoWait, Text: "no GPU free: " + why}
		case c.MaxWait > 0 && waited >= time.Duration(c.MaxWait):
			return false, &batches.Failure{Code: batches.ExitGaveUp, Text: "gave up after " + terminal.Duration(waited) + ": " + why}
		case why != said:
			fmt.Fprintln(a.Err, "gpurun: waiting: "+terminal.CleanText(why))
			said = why
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-hold.engine.Events(): // what others claim or wish for has changed
		case <-time.After(pause):
		}
	}
}

// wishAgain is how often a wish is published that has not changed: somebody may have removed
// it, but each time wakes everybody who waits.
const wishAgain = 30 * time.Second

// asking returns what to wish for: nothing while this user may not hold as much.
func asking(pool *gpu.Pool, req gpu.Request, need gpu.HostResources) []gpu.Ask {
	if a := pool.Ask(host.Boottime(), req, 1, nil); a.Room >= a.Min && len(a.UUIDs) > 0 {
		a.HostResources = need
		return []gpu.Ask{a}
	}
	return nil
}

// offeredPause is how soon a GPU that is offered to this command is read again.
const offeredPause = 20 * time.Millisecond

// try claims GPUs, or returns why it could not and when to try again.
func (c *execCmd) try(ctx context.Context, pool *gpu.Pool, req gpu.Request, snap gpu.Observation, hold *execClaim) (ok bool, why string, pause time.Duration) {
	pause = max(time.Duration(c.Poll), 100*time.Millisecond)
	if snap.Err != "" {
		return false, "the GPUs cannot be read: " + snap.Err, pause
	}
	theirs, until := pool.Turns.Theirs(snap.At)
	if until > 0 {
		pause = min(pause, until-snap.At)
	}
	if l := pool.Turns.Lacks(snap.At, gpu.HostResources{}, c.needs()); l != nil {
		return false, l.Why(gpu.HostResources{}, c.needs()), min(pause, time.Second)
	}
	if grant, ok := pool.Find(snap.At, req, theirs); ok {
		grant.HostResources = c.needs()
		lost := hold.take(ctx, pool, grant)
		hold.lost++
		return lost == "", lost, gpu.Apart(hold.uniID, hold.lost, pause)
	}
	hold.lost = 0
	if len(pool.Offered()) > 0 { // its memory is coming back
		pause = min(pause, offeredPause)
	}
	var parts []string
	for _, v := range pool.Admit(snap.At, req) {
		if v.OK && slices.Contains(theirs, v.UUID) {
			v.OK, v.Reason = false, "another user's turn"
		}
		if !v.OK {
			parts = append(parts, fmt.Sprintf("GPU %d: %s", v.Index, v.Reason))
		}
	}
	return false, strings.Join(parts, "; "), pause
}
