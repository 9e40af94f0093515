package cli

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

// askLimit bounds the wait for a run that does not answer, and readLimit for one that reads
// its files first, which may be huge.
const (
	askLimit  = 5 * time.Second
	readLimit = time.Minute
)

// exitLimit is how long a run may take between its last answer and its end.
const exitLimit = 2 * time.Second

// ask sends a request to the run of a batch. It returns ErrNoRun if no run is alive,
// and a failure that tells why if one is but does not answer.
func (ref *batchRef) ask(req control.Request) (control.Reply, error) {
	if ref.past {
		return control.Reply{}, control.ErrNoRun
	}
	if ref.alive && ref.runner.PID != 0 && (!ref.runner.Here || procs.Stopped(ref.runner.PID)) {
		return control.Reply{}, ref.silent(nil)
	}
	limit := askLimit
	if req.Op == control.OpReload {
		limit = readLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	rep, err := control.Do(ctx, ref.dir, req)
	shows := req.Op == control.OpStatus || req.Op == control.OpWait // again, if need be
	for began := time.Now(); errors.Is(err, control.ErrNoRun) && ref.alive && !shows && time.Since(began) < exitLimit; {
		time.Sleep(50 * time.Millisecond)
		rep, err = control.Do(ctx, ref.dir, req)
		ref.look()
	}
	switch {
	case err == nil || rep.Err != "":
		return rep, err
	case !ref.alive && (ref.doubt == nil || errors.Is(err, control.ErrNoRun)):
		return rep, control.ErrNoRun
	}
	return rep, ref.silent(err)
}

// silent returns the reason why the run does not answer.
func (ref *batchRef) silent(err error) error {
	e := &failure{code: exitState, err: err}
	pid := ref.runner.PID
	switch {
	case pid == 0:
		e.text = "it did not record its process, and does not answer"
	case !ref.runner.Here:
		e.text, e.hint = fmt.Sprintf("it is process %d on %s", pid, ref.runner.Host), "run this command on "+ref.runner.Host
	case ref.runner.UID >= 0 && ref.runner.UID != os.Getuid() && os.Getuid() != 0:
		e.text = fmt.Sprintf("it is process %d of %s, and only that user can reach it", pid, cmp.Or(host.Login(ref.runner.UID), fmt.Sprintf("user %d", ref.runner.UID)))
	case procs.Stopped(pid):
		e.text, e.hint = fmt.Sprintf("process %d is stopped", pid), fmt.Sprintf("kill -CONT %d resumes it", pid)
	case errors.Is(err, control.ErrNoRun):
		e.text = fmt.Sprintf("process %d is starting or exiting", pid)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		e.text = fmt.Sprintf("process %d has not answered for %v", pid, askLimit)
	default:
		e.text = fmt.Sprintf("process %d does not answer: %v", pid, err)
	}
	return e
}
