package cli

import (
	"errors"

	"gpurun/runner/batches"
	"gpurun/state"
)

// codeOf returns the exit status of an error. An error without one comes from the
// arguments or the machine, before anything ran: exitUsage.
func codeOf(err error) int {
	var f *batches.Failure
	switch {
	case err == nil:
		return batches.ExitDone
	case errors.As(err, &f):
		return f.Code
	}
	return batches.ExitUsage
}

// statusOf returns the exit status of a run.
func statusOf(r state.Result, noWait bool) int {
	switch {
	case r.Stopped == "SIGINT" || r.Stopped == "Ctrl-C":
		return batches.ExitInt
	case r.Stopped != "":
		return batches.ExitTerm
	case r.StateErr != nil:
		return batches.ExitState
	case r.GaveUp && noWait:
		return batches.ExitNoWait
	case r.GaveUp:
		return batches.ExitGaveUp
	}
	left := false
	for phase, n := range r.Final.Counts {
		if n > 0 && phase.Bad() {
			return batches.ExitFailed
		}
		left = left || n > 0 && (!phase.Ended() || phase == state.Interrupted)
	}
	switch {
	case left && r.Final.Draining != "":
		return batches.ExitTerm // gpurun stop --drain
	case left:
		return batches.ExitFailed
	}
	return batches.ExitDone
}
