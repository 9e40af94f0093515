package runner

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// cramped is an event caused by a full disk or by state that cannot be written. The
// job has not failed.
type cramped struct {
	sched.Event
	event sched.Event
	err   error
}

// isCramped reports whether any other job would fail for the same reason.
func isCramped(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.As(err, new(*engine.BrokenError)) ||
		errors.As(err, new(*disk.FolderError))
}

// A start waits up to a minute for free file descriptors.
const (
	filesPause = 200 * time.Millisecond
	filesTries = int(time.Minute / filesPause)
)

// outOfFiles reports whether the process or system ran out of file descriptors.
func outOfFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// refused returns the answer to a Prepare that failed.
func refused(job int, err error) sched.Event {
	ev := sched.PrepareFailed{Job: job, Reason: err.Error()}
	if isCramped(err) {
		return cramped{Event: ev, event: ev, err: err}
	}
	return ev
}

// stateFailed makes the core stop starting jobs. Only the first cause counts.
func (l *loop) stateFailed(err error) {
	if l.out.stateErr == nil {
		l.out.stateErr = err
		l.later(sched.StateFailed{Err: err.Error()})
	}
}

// checkState makes the core stop starting jobs once the state is unreliable, even
// while there is nothing to write.
func (l *loop) checkState() {
	if err := l.Ledger.Failure(); err != nil {
		l.Log.Error().Err(err).Msg("state")
		l.stateFailed(err)
		l.step(sched.Woken{})
	}
}

// withoutRoom returns the end of an attempt that never began because its folder or
// log could not be written. That ends the run; the job has not failed.
func (l *loop) withoutRoom(e engine.Ended) engine.Ended {
	l.stateFailed(errors.New(e.Err))
	e.Lost, e.Void, e.Why = true, true, state.WhyInterrupted
	return e
}
