package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

type execCmd struct {
	gpuFlags  `embed:""`
	simFlag   `embed:""`
	needFlags `embed:""`
	GPUs      countFlag `name:"gpus" short:"g" default:"1" placeholder:"N" help:"Number of GPUs; 2-4 for at least 2 and up to 4 (${default})."`
	Poll      timeFlag  `default:"5s" placeholder:"TIME" help:"How often to read the GPUs while waiting (${default})."`
	MaxWait   timeFlag  `default:"0s" placeholder:"TIME" help:"Give up after this long and exit with 124 (never)."`
	NoWait    bool      `help:"Exit with 75 if no GPU is free right away."`
	Command   []string  `arg:"" optional:"" passthrough:"partial" name:"cmd" help:"The command and its arguments."`
}

// Help returns the command's description and examples.
func (execCmd) Help() string {
	return `The command gets the terminal, and gpurun exits with its status: 128 + N after signal N, 127 if it is not found, 126 if it cannot be executed.

Examples:

    gpurun exec -- python train.py --lr 1e-3
    gpurun exec -g 2 -m 40GiB -- torchrun --nproc-per-node 2 train.py
    gpurun exec --no-wait -- nvidia-smi`
}

// Run waits for GPUs and runs the command on them.
func (c *execCmd) Run(a *app) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return &failure{code: exitUsage, text: "no command given", hint: "try gpurun exec -- CMD, e.g. gpurun exec -- python train.py"}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return cannotExecute(argv[0], err)
	}
	ctx, stop := a.untilSignal()
	defer stop()
	claims := &execClaim{app: a, job: "exec " + filepath.Base(argv[0]), uniID: fmt.Sprintf("exec-%d-%d", os.Getpid(), time.Now().UnixNano())}
	defer claims.release()
	grant, whole, err := c.wait(ctx, a, claims)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return a.foreground(path, argv, execEnv(os.Environ(), claims.uniID, grant, whole), stop, claims.stand)
}

// cannotExecute returns the failure of a command that cannot run, with the status that shells use.
func cannotExecute(name string, err error) error {
	f := &failure{code: exitNotFound, err: err}
	switch {
	case !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist):
		f.code, f.text = exitCannotExecute, "cannot execute "+name+": "+reason(err)
	case strings.Contains(name, "/"):
		f.text = name + ": no such file"
	default:
		f.text = name + ": command not found"
	}
	if errors.Is(err, os.ErrPermission) {
		f.hint = "chmod +x " + name + ", or name its interpreter: gpurun exec -- python " + name
	}
	return f
}

// reason returns err without the path that it is about.
func reason(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// wait takes readings until GPUs are found. It closes the driver before the command
// starts: an open driver blocks a GPU reset.
func (c *execCmd) wait(ctx context.Context, a *app, claims *execClaim) (gpu.Grant, bool, error) {
	if c.GPUs.min == 0 {
		return gpu.Grant{}, true, nil
	}
	answered := a.unlessSoon(waitingForDriver)
	defer answered()
	if err := a.checkNoGPUs(ctx, &c.gpuFlags, c.simFlag); err != nil {
		return gpu.Grant{}, false, err
	}
	p, err := a.openProber(ctx, &c.gpuFlags, zerolog.Nop())
	if err != nil {
		return gpu.Grant{}, false, err
	}
	defer p.Close()
	pool, err := c.pool(p, c.Sim != "", time.Duration(c.Poll), c.NoWait)
	if err != nil {
		return gpu.Grant{}, false, err
	}
	req := c.request(c.GPUs)
	if why, ok := pool.Possible(req); !ok {
		return gpu.Grant{}, false, &failure{code: exitUsage, text: why}
	}
	if err := claims.open(p); err != nil {
		return gpu.Grant{}, false, err
	}
	grant, err := c.search(ctx, a, p, pool, req, claims, answered)
	return grant, indexed(p), err
}

// search is the wait itself. It prints the reason whenever that changes, and calls
// answered once the GPUs have been read.
func (c *execCmd) search(ctx context.Context, a *app, p probe.Prober, pool *gpu.Pool, req gpu.Request, claims *execClaim, answered func()) (gpu.Grant, error) {
	began, said := host.Boottime(), ""
	for {
		snap := a.observed(ctx, p, claims.engine.Others)
		answered()
		if err := context.Cause(ctx); err != nil {
			return gpu.Grant{}, err
		}
		pool.Observe(snap)
		grant, ok := pool.Find(snap.At, req, nil)
		why := reasons(pool.Admit(snap.At, req))
		if snap.Err != "" {
			ok, why = false, "the GPUs cannot be read: "+snap.Err
		}
		pause := max(time.Duration(c.Poll), 100*time.Millisecond)
		if ok {
			if lost := claims.take(ctx, pool, grant); lost != "" {
				ok, why, pause = false, lost, rivalPause()
			}
		}
		waited := host.Boottime() - began
		switch {
		case ok:
			if note := pool.Note(snap.At, req, grant); note != "" {
				fmt.Fprintln(a.err, "gpurun: "+note)
			}
			return grant, nil
		case c.NoWait:
			return gpu.Grant{}, &failure{code: exitNoWait, text: "no GPU free: " + why}
		case c.MaxWait > 0 && waited >= time.Duration(c.MaxWait):
			return gpu.Grant{}, &failure{code: exitGaveUp, text: "gave up after " + terminal.Duration(waited) + ": " + why}
		}
		if why != said {
			fmt.Fprintln(a.err, "gpurun: waiting: "+terminal.CleanText(why))
			said = why
		}
		select {
		case <-ctx.Done():
			return gpu.Grant{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// reasons returns why each GPU was refused.
func reasons(verdicts []gpu.Verdict) string {
	var parts []string
	for _, v := range verdicts {
		if !v.OK {
			parts = append(parts, fmt.Sprintf("GPU %d: %s", v.Index, v.Reason))
		}
	}
	return strings.Join(parts, "; ")
}

// execEnv returns the command's environment.
func execEnv(base []string, uniID string, g gpu.Grant, whole bool) []string {
	ids := make([]string, len(g.UUIDs))
	for i, id := range g.UUIDs {
		ids[i] = string(id)
		if whole && !strings.HasPrefix(ids[i], "MIG-") {
			ids[i] = strconv.Itoa(g.Indices[i])
		}
	}
	cuda, nvidia := strings.Join(ids, ","), strings.Join(ids, ",")
	if len(ids) == 0 {
		cuda, nvidia = "-1", "void"
	}
	return append(base, "GPURUN_UNI_ID="+uniID, "CUDA_VISIBLE_DEVICES="+cuda, "NVIDIA_VISIBLE_DEVICES="+nvidia, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
}

// foreground runs a command in the foreground, and passes its pid to started.
// Keyboard signals reach the command directly; others are forwarded. It starts
// nothing if interrupted, called once signals arrive here, returns an error.
func (a *app) foreground(path string, argv, env []string, interrupted func() error, started func(pid int)) error {
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	in := make(chan os.Signal, 16)
	signal.Notify(in, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(in)
	if err := interrupted(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		why := reason(err)
		if errors.Is(err, os.ErrNotExist) {
			why = "its interpreter (the #! line) does not exist"
		}
		return &failure{code: exitCannotExecute, text: "cannot execute " + path + ": " + why, err: err}
	}
	started(cmd.Process.Pid)
	ended := make(chan error, 1)
	a.goSafely(func() { ended <- cmd.Wait() })
	for {
		select {
		case sig := <-in:
			if sig != syscall.SIGINT && sig != syscall.SIGQUIT || !a.onTerminal() {
				cmd.Process.Signal(sig)
			}
		case err := <-ended:
			return exitOfCommand(err)
		}
	}
}

// exitOfCommand returns a command's exit status as shells do.
func exitOfCommand(err error) error {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ee):
		if ws, ok := ee.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return quiet(128 + int(ws.Signal()))
		}
		return quiet(ee.ExitCode())
	}
	return &failure{code: exitInternal, text: err.Error(), err: err}
}
