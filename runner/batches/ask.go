package batches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gpurun/runner/control"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// askLimit bounds the wait for an answer from a run. For a reload, the limit is readLimit, since
// the files may be huge.
const (
	askLimit  = 5 * time.Second
	readLimit = time.Minute
)

// exitLimit is how long a run may take from its last answer to its exit.
const exitLimit = 2 * time.Second

// Ask sends a request to the run of a batch. It returns ErrNoRun if no run is alive, or a failure
// with the reason if a live run does not answer.
func (ref *Ref) Ask(req control.Request) (control.Reply, error) {
	if ref.past {
		return control.Reply{}, control.ErrNoRun
	}
	if ref.Alive && ref.Runner.PID != 0 && (!ref.Runner.Here || procs.Stopped(ref.Runner.PID)) {
		return control.Reply{}, ref.Silent(nil)
	}
	limit := askLimit
	if req.Op == control.OpReload {
		limit = readLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	rep, err := control.Do(ctx, ref.Dir, req)
	shows := req.Op == control.OpStatus || req.Op == control.OpWait // read-only, so it can be repeated
	for began := time.Now(); errors.Is(err, control.ErrNoRun) && ref.Alive && !shows && time.Since(began) < exitLimit; {
		time.Sleep(50 * time.Millisecond)
		rep, err = control.Do(ctx, ref.Dir, req)
		ref.Look()
	}
	switch s := rep.Status; {
	case err == nil && req.Op == control.OpStatus && (s == nil || s.Live == nil):
		err = errors.New("an earlier version of gpurun started it")
	case err == nil || rep.Err != "":
		return rep, err
	case !ref.Alive && (ref.unsure == nil || errors.Is(err, control.ErrNoRun)):
		return rep, control.ErrNoRun
	}
	return rep, ref.Silent(err)
}

// Silent returns a failure that explains why the run does not answer.
func (ref *Ref) Silent(err error) error {
	e := &Failure{Code: ExitState, Err: err}
	pid := ref.Runner.PID
	switch {
	case pid == 0:
		e.Text = "it does not answer, and its process ID is unknown"
	case !ref.Runner.Here:
		e.Text, e.Hint = fmt.Sprintf("it is process %d on %s", pid, ref.Runner.Host), "run this command on "+ref.Runner.Host
	case ref.Runner.UID >= 0 && ref.Runner.UID != os.Getuid() && os.Getuid() != 0:
		e.Text = fmt.Sprintf("it is process %d of %s, and only that user or root can reach it", pid, cmp.Or(host.Login(ref.Runner.UID), fmt.Sprintf("user %d", ref.Runner.UID)))
	case procs.Stopped(pid):
		e.Text, e.Hint = fmt.Sprintf("process %d is stopped", pid), fmt.Sprintf("kill -CONT %d resumes it", pid)
	case errors.Is(err, control.ErrNoRun):
		e.Text = fmt.Sprintf("process %d is starting or exiting", pid)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		e.Text = fmt.Sprintf("process %d does not answer", pid)
	default:
		e.Text = fmt.Sprintf("process %d does not answer: %v", pid, err)
	}
	return e
}

// Unreached returns the failure for a request that a run did not carry out.
func (ref *Ref) Unreached(rep control.Reply, err error) error {
	var silent *Failure
	switch {
	case errors.As(err, &silent):
		return &Failure{Code: ExitState, Text: ref.Name() + " is running, but gpurun cannot reach it: " + silent.Text, Hint: silent.Hint, Err: err}
	case errors.As(err, new(control.Refusal)):
		return &Failure{Code: ExitFailed, Text: ref.Name() + ": " + err.Error(), Lines: rep.Lines, Err: err}
	}
	return &Failure{Code: ExitUsage, Text: ref.Name() + ": " + err.Error(), Err: err}
}
