package cli

import (
	"errors"

	"gpurun/state"
)

// Exit statuses. If several apply, the first in the order of statusOf counts; never 0
// if anything failed.
const (
	exitDone     = 0   // all done, or nothing to do
	exitFailed   = 1   // a job failed
	exitUsage    = 2   // bad files or arguments; nothing ran
	exitState    = 4   // the state cannot be used
	exitInternal = 70  // internal error
	exitNoWait   = 75  // no GPU free right away, with --no-wait
	exitNotYet   = 75  // gpurun wait --timeout: what it waits for has not ended
	exitGaveUp   = 124 // no GPU within max_wait
	exitInt      = 130 // interrupted: Ctrl-C
	exitTerm     = 143 // interrupted: SIGTERM, gpurun stop

	exitCannotExecute = 126 // gpurun exec: the command cannot be executed
	exitNotFound      = 127 // gpurun exec: command not found
)

// A failure ends a command, with a message and an exit status.
type failure struct {
	code int
	text string
	hint string   // what to do about it, or ""
	more []string // lines below the text, verbatim
	err  error    // the cause, for errors.Is; may be nil
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// quiet returns a failure that needs no message.
func quiet(code int) error {
	if code == exitDone {
		return nil
	}
	return &failure{code: code}
}

// codeOf returns the exit status of an error. An error without one comes from the
// arguments or the machine, before anything ran: exitUsage.
func codeOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &f):
		return f.code
	}
	return exitUsage
}

// statusOf returns the exit status of a run.
func statusOf(r state.Result, noWait bool) int {
	switch {
	case r.Stopped == "SIGINT" || r.Stopped == "Ctrl-C":
		return exitInt
	case r.Stopped != "":
		return exitTerm
	case r.StateErr != nil:
		return exitState
	case r.GaveUp && noWait:
		return exitNoWait
	case r.GaveUp:
		return exitGaveUp
	}
	left := false
	for phase, n := range r.Final.Counts {
		if n > 0 && phase.Bad() {
			return exitFailed
		}
		left = left || n > 0 && (!phase.Ended() || phase == state.Interrupted)
	}
	switch {
	case left && r.Final.Draining != "":
		return exitTerm // gpurun stop --drain
	case left:
		return exitFailed
	}
	return exitDone
}
