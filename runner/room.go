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

// cramped is an event that came of a disk that takes nothing more, or of state
// that cannot be written: no failure of the job.
type cramped struct {
	sched.Event
	event sched.Event
	err   error
}

// isCramped says whether another job would fail for the same cause.
func isCramped(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.As(err, new(*engine.BrokenError)) ||
		errors.As(err, new(*disk.FolderError))
}

// A start waits for files to be closed for a minute.
const (
	filesPause = 200 * time.Millisecond
	filesTries = int(time.Minute / filesPause)
)

// outOfFiles reports whether there was no descriptor to be had.
func outOfFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// refused is the answer to a Prepare that has failed.
func refused(job int, err error) sched.Event {
	ev := sched.Refused{Job: job, Reason: err.Error()}
	if isCramped(err) {
		return cramped{Event: ev, event: ev, err: err}
	}
	return ev
}

// stateFailed makes the core start nothing more; the first cause counts.
func (l *loop) stateFailed(err error) {
	if l.out.stateErr == nil {
		l.out.stateErr = err
		l.later(sched.StateFailed{Err: err.Error()})
	}
}

// checkState starts nothing more once the state cannot be relied on, also while
// nothing is written.
func (l *loop) checkState() {
	if err := l.Ledger.Failure(); err != nil {
		l.Log.Error().Err(err).Msg("state")
		l.stateFailed(err)
		l.step(sched.Tick{})
	}
}

// withoutRoom is the end of an attempt that never began since its folder or its
// log took nothing: the run is at its end, not the job.
func (l *loop) withoutRoom(e engine.Ended) engine.Ended {
	l.stateFailed(errors.New(e.Err))
	e.Lost, e.Void, e.Why = true, true, state.WhyInterrupted
	return e
}
