package cli

import (
	"errors"

	"gpurun/runner"
)

// Exit statuses; behaviour.md section 1. Of several the first in the order of
// statusOf counts, and 0 never when something failed.
const (
	exitDone     = 0   // all done, or nothing to do
	exitFailed   = 1   // some job failed
	exitUsage    = 2   // the files or the arguments are wrong, nothing ran
	exitState    = 4   // the state cannot be used
	exitInternal = 70  // gpurun itself failed
	exitNoWait   = 75  // no GPU free at once, with --no-wait
	exitGaveUp   = 124 // no GPU for max_wait
	exitInt      = 130 // interrupted: Ctrl-C
	exitTerm     = 143 // interrupted: SIGTERM, gpurun stop

	exitCannotExecute = 126 // gpurun exec: the command cannot be executed
	exitNotFound      = 127 // gpurun exec: there is no such command
)

// A failure ends a command: what is said of it, and the exit status.
type failure struct {
	code int
	text string
	hint string   // a cure, or ""
	more []string // lines below the text, as they are
	err  error    // the cause, for errors.Is; may be nil
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// quiet is a failure about which everything has been said.
func quiet(code int) error {
	if code == exitDone {
		return nil
	}
	return &failure{code: code}
}

// codeOf is the exit status of an error; one that carries none is a usage error
// of the machine or the arguments: nothing ran.
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

// statusOf is the exit status of a run.
func statusOf(r runner.Result, noWait bool) int {
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
		left = left || n > 0 && !phase.Ended()
	}
	switch {
	case left && r.Final.Draining != "":
		return exitTerm // gpurun stop --drain
	case left:
		return exitFailed
	}
	return exitDone
}
