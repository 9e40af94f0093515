package batches

import (
	"errors"
	"fmt"

	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// Exit statuses. If several apply, the order in ExitOf decides. The status is never 0 if anything
// failed.
const (
	ExitDone     = 0   // all done, or nothing to do
	ExitFailed   = 1   // a job failed
	ExitUsage    = 2   // invalid files or arguments; nothing ran
	ExitState    = 4   // the state cannot be used
	ExitInternal = 70  // internal error
	ExitNotYet   = 75  // --no-wait: no GPU is free; wait --timeout: not ended yet
	ExitGaveUp   = 124 // no GPU within max_wait
	ExitInt      = 130 // interrupted: Ctrl-C
	ExitTerm     = 143 // interrupted: SIGTERM, gpurun stop

	ExitCannotExecute = 126 // gpurun exec: the command cannot be executed
	ExitNotFound      = 127 // gpurun exec: command not found
)

// A Failure ends a command with a message and an exit status.
type Failure struct {
	Code  int
	Text  string
	Hint  string   // how to fix it, or ""
	Lines []string // lines below the text, verbatim
	Err   error    // the cause, for errors.Is; may be nil
}

func (f *Failure) Error() string { return f.Text }

func (f *Failure) Unwrap() error { return f.Err }

// Exit returns a failure without a message.
func Exit(code int) error {
	if code == ExitDone {
		return nil
	}
	return &Failure{Code: code}
}

// StateFailure explains why the state cannot be used, and who uses it.
func StateFailure(err error) error {
	held, locked := errors.AsType[*disk.LockedError](err)
	if !locked {
		return &Failure{Code: ExitState, Text: err.Error(), Err: err}
	}
	text := fmt.Sprintf("%s is already running", held.File)
	if held.PID > 0 {
		text += fmt.Sprintf(" as process %d on %s", held.PID, held.Host)
	} else if held.Host != "" {
		text += " on " + held.Host
	}
	if held.Space {
		text += ", in another PID namespace (a container)"
	}
	if !held.Since.IsZero() {
		text += held.Since.Local().Format(", since 2006-01-02 15:04:05")
	}
	hint := "gpurun status -w shows it, gpurun stop ends it"
	if held.Elsewhere {
		hint = "that run's state folder is elsewhere or was removed: pass its --state-dir, or the file name that it was started with, to gpurun status or gpurun stop"
		if held.PID > 0 {
			hint += fmt.Sprintf(" (ps -fp %d shows both)", held.PID)
		}
	}
	return &Failure{Code: ExitState, Text: text, Err: err, Hint: hint}
}

// ExitOf returns the exit status of a run.
func ExitOf(r schema.Result, noWait bool) int {
	switch {
	case r.Stopped == "SIGINT" || r.Stopped == "Ctrl-C":
		return ExitInt
	case r.Stopped != "":
		return ExitTerm
	case r.StateErr != nil:
		return ExitState
	case r.GaveUp && noWait:
		return ExitNotYet
	case r.GaveUp:
		return ExitGaveUp
	}
	for phase, n := range r.Final.Counts {
		if n > 0 && phase.Bad() {
			return ExitFailed
		}
	}
	switch {
	case Finished(r.Final):
		return ExitDone
	case r.Final.Live != nil && r.Final.Live.Draining != nil:
		return ExitTerm // drained by gpurun stop --drain, or because the surrounding cluster job would end first
	}
	return ExitFailed
}

// Finished reports whether all jobs ended and none was interrupted.
func Finished(s *schema.Status) bool {
	for phase, n := range s.Counts {
		if n > 0 && (!phase.Ended() || phase == state.Interrupted) {
			return false
		}
	}
	return true
}
