package runner

import (
	"errors"
	"fmt"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// A lostRace error means that another run claimed a granted GPU first. The job has not failed.
type lostRace struct{ error }

// isOutOfSpace reports whether an error would hit every job: a full disk, a limit on file size,
// or a state folder that cannot be written.
func isOutOfSpace(err error) bool {
	return host.NoRoom(err) || errors.As(err, new(*engine.BrokenError)) || errors.As(err, new(*disk.FolderError))
}

// refused returns the answer to a Prepare that failed.
func (l *loop) refused(a sched.Prepare, err error) sched.Event {
	if isOutOfSpace(err) {
		l.stateFailed(err)
	}
	return sched.PrepareFailed{Job: a.Job, Reason: err.Error(), Input: errors.As(err, new(*files.NoMatch)), Rival: errors.As(err, new(lostRace))}
}

// stateFailed makes the core stop starting jobs. Only the first error is kept.
func (l *loop) stateFailed(err error) {
	if l.out.StateErr == nil {
		l.out.StateErr = err
		l.later(sched.StateFailed{Err: err.Error()})
	}
}

// checkState makes the core stop starting jobs when the state becomes unreliable, even if there is
// nothing to write.
func (l *loop) checkState() {
	if err := l.Ledger.Failure(); err != nil {
		l.Log.Error().Err(err).Msg("state")
		l.stateFailed(err)
		l.step(sched.Woken{})
	}
}

type warnings struct {
	said  map[string]bool
	lost  map[gpu.UUID]bool // devices that do not answer
	blind bool              // the last reading failed
}

// warn prints each warning once per run.
func (l *loop) warn(texts ...string) {
	for _, w := range texts {
		if !l.warnings.said[w] {
			l.warnings.said[w] = true
			l.say(w)
		}
	}
}

// say prints a warning immediately, and adds it to run.log and the summary.
func (l *loop) say(text string) {
	l.Log.Warn().Msg(text)
	if l.Warn != nil {
		l.Warn(text)
	}
	switch n := len(l.out.Warnings); {
	case n < maxFailures:
		l.out.Warnings = append(l.out.Warnings, text)
	case n == maxFailures:
		l.out.Warnings = append(l.out.Warnings, "more warnings in run.log")
	}
}

// warnOf prints the warnings that belong to an end.
func (l *loop) warnOf(job string, e sched.Ended) {
	if e.LeftOver > 0 && e.Why == "" {
		what := "a process"
		if e.LeftOver > 1 {
			what = fmt.Sprintf("%d processes", e.LeftOver)
		}
		l.say(fmt.Sprintf("%s: gpurun stopped %s that the job left running", job, what))
	}
	if len(e.Stuck) > 0 {
		l.say(job + ": some of its processes survived SIGKILL (see dmesg); its GPUs stay reserved")
	}
	if e.Warning != "" {
		l.say(job + ": " + e.Warning)
	}
}
