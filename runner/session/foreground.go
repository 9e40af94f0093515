package session

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/host"
)

// open opens the engine, and begins a run of the command.
func (e *Exec) open(p probe.Prober, pool *gpu.Pool) (err error) {
	e.begin(pool)
	e.engine, err = e.OpenEngine(batches.Engines["local"], "", zerolog.Nop(), ClaimRoots(p, execFolder()), engine.Cluster{})
	e.spent = claimsOf(p, execFolder())
	e.spent.open(pool)
	return err
}

// begin makes the core of a batch with the command as its only job.
func (e *Exec) begin(pool *gpu.Pool) {
	job := jobspec.Job{Name: execPrefix + e.Name, Queue: -1, Spec: &jobspec.Spec{Request: e.Request, CPUs: e.Needs.CPUs, Memory: e.Needs.RAM}}
	b := &jobspec.Batch{Files: make([]jobspec.File, 1), Jobs: []jobspec.Job{job}, Settings: jobspec.Settings{Poll: e.Rules.Poll, MaxWait: e.MaxWait}}
	e.core = sched.New(b, state.NewHistory(), sched.Options{NoWait: e.Rules.AtOnce, Run: RunID(), UID: host.CurrentUID(), Name: job.Name})
	e.core.Use(pool)
	e.pool = pool
}

// execFolder returns the last-resort folder for a command's claims.
func execFolder() string {
	return filepath.Join(os.TempDir(), "gpurun-exec-"+strconv.Itoa(os.Getuid()))
}

// bindClaim binds the claim to the process pid, and starts the timer of the host's time limit.
func (e *Exec) bindClaim(pid int) {
	if e.engine.Engine == nil {
		return
	}
	e.engine.Claims.Stand(e.uniID, execPrefix+e.Name, e.grant, pid)
	if limit := e.pool.Host().TimeLimit(); limit != "" {
		e.Say("note", "time limit for the command: "+limit)
		root, _ := procs.One(pid)
		e.over = make(chan struct{})
		e.timer = time.AfterFunc(e.pool.Host().MaxTimeout, func() {
			endCommand(e.uniID, root.ID)
			close(e.over)
		})
	}
}

// execGrace is the time from SIGTERM to SIGKILL.
const execGrace = 10 * time.Second

// endCommand ends the processes of an exec's command and returns their number. The roots' descendants
// count even if their environment does not name the command, as after env -i or setproctitle.
func endCommand(uniID string, roots ...procs.ID) (found int) {
	var end procs.Ending
	var census procs.Census
	end.Begin(execGrace)
	for !end.Stuck() {
		ids := census.Tree(uniID, roots, time.Now())
		if len(ids) == 0 {
			break
		}
		roots, found = slices.Clone(ids), max(found, len(ids)) // once a process has ended, its children have another parent
		end.Signal(ids, procs.ID{})
		end.Again(procs.LastLook)
		<-end.Look()
	}
	return found
}

// ended returns a timeout error if the timer ended the command, or else err.
func (e *Exec) ended(err error) error {
	if e.timer == nil || e.timer.Stop() {
		return err
	}
	<-e.over
	return &batches.Failure{Code: batches.ExitGaveUp, Text: "stopped the command: " + e.pool.Host().TimeLimit()}
}

func (e *Exec) release() {
	if e.engine.Engine != nil {
		e.pool.AdvanceTo(host.Boottime())
		s := e.pool.Spent()
		s.Others = nil // stale, because nothing was read while the command ran
		e.spent.spend(s)
		if !e.keeps {
			e.engine.Claims.Withdraw(e.uniID)
		}
		e.engine.Close()
	}
}

// outlived reports whether the command has left processes, as "python train.py &" does. They may use
// its GPUs, so the keeper holds the claim for them. If the host limits the time of commands, they end
// with theirs.
func (e *Exec) outlived() bool {
	var left []procs.ID
	for end := time.Now().Add(5 * procs.SettleTime); ; time.Sleep(procs.SettleTime) {
		if left = new(procs.Census).Tree(e.uniID, nil, time.Now()); len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) == 0 {
		return false
	}
	e.engine.Claims.Outlast(e.uniID)
	what := "the command has ended, but left " + procs.Describe(left, slices.MinFunc(left, procs.ID.Compare)) + " running"
	if limit := e.pool.Host().TimeLimit(); limit != "" {
		e.Warn(what + ": stopping it, because of the time limit for commands: " + limit)
		endCommand(e.uniID, left...)
		return len(new(procs.Census).Tree(e.uniID, left, time.Now())) > 0
	}
	e.Warn(what + ", so its GPUs stay claimed; to end that: gpurun stop --exec " + shellescape.Quote(e.Name))
	return true
}

// Foreground runs a command in the foreground and passes its PID to started. Signals from the
// keyboard reach the command directly, and Foreground forwards the others. If gpurun was started
// with a signal ignored, as by nohup, the command ignores it, too. The command would ignore the
// signals in deaf, so Foreground sends it SIGINT instead. After a signal, the exit status of a client
// of a cluster is meaningless. Foreground calls interrupted once it catches signals, and does not
// start the command if interrupted returns an error.
func Foreground(p *Process, cmd *exec.Cmd, interrupted func() error, started func(pid int), client bool, deaf ...os.Signal) error {
	in := make(chan os.Signal, 16)
	caught := []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	signal.Notify(in, slices.DeleteFunc(caught, signal.Ignored)...) // the command inherits ignored signals, but not caught ones
	defer signal.Stop(in)
	if err := interrupted(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		why := reason(err)
		if errors.Is(err, os.ErrNotExist) {
			why = "the interpreter in its #! line does not exist"
		}
		return &batches.Failure{Code: batches.ExitCannotExecute, Text: "cannot execute " + cmd.Path + ": " + why, Err: err}
	}
	started(cmd.Process.Pid)
	var ended atomic.Int32 // signal that ended a command whose own exit status is then meaningless
	p.Go(func() {
		for sig := range in {
			if client && (sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP) {
				ended.Store(int32(sig.(syscall.Signal)))
			}
			switch {
			case slices.Contains(deaf, sig):
				cmd.Process.Signal(syscall.SIGINT)
			case sig != syscall.SIGINT && sig != syscall.SIGQUIT || !p.onTerminal():
				cmd.Process.Signal(sig)
			}
		}
	})
	err := cmd.Wait()
	if cmd.ProcessState == nil {
		return &batches.Failure{Code: batches.ExitInternal, Text: err.Error(), Err: err}
	}
	if sig := ended.Load(); sig != 0 && (len(deaf) > 0 || !cmd.ProcessState.Success()) { // qrsh ends with 0 after SIGINT
		return batches.Exit(128 + int(sig))
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return batches.Exit(128 + int(ws.Signal()))
	}
	return batches.Exit(cmd.ProcessState.ExitCode())
}

// CannotExecute returns the error for a command that cannot run, with the exit status that shells
// use.
func CannotExecute(name string, err error) error {
	f := &batches.Failure{Code: batches.ExitNotFound, Err: err}
	switch {
	case strings.Contains(name, "/") && errors.Is(err, os.ErrNotExist):
		f.Text = name + ": no such file"
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		f.Text = name + ": command not found"
	default:
		f.Code, f.Text = batches.ExitCannotExecute, "cannot execute "+name+": "+reason(err)
	}
	if errors.Is(err, os.ErrPermission) {
		f.Hint = "chmod +x " + name + ", or run it with its interpreter: gpurun exec -- python " + name
	}
	return f
}

// reason returns err without its path.
func reason(err error) string {
	if no, is := errors.AsType[syscall.Errno](err); is {
		return no.Error()
	}
	return err.Error()
}
