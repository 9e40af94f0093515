package cli

import (
	"errors"
	"fmt"

	"gpurun/runner/engine/local"
	"gpurun/state/disk"
)

// stateFailure says why the state cannot be used, and by whom it is.
func stateFailure(err error) error {
	var held *disk.LockedError
	if !errors.As(err, &held) {
		return &failure{code: exitState, text: err.Error(), err: err}
	}
	text := fmt.Sprintf("%s is being run already", held.File)
	if held.PID > 0 {
		text += fmt.Sprintf(" by process %d on %s", held.PID, held.Host)
	} else if held.Host != "" {
		text += " on " + held.Host
	}
	if held.Space {
		text += ", in another pid namespace (a container)"
	}
	if !held.Since.IsZero() {
		text += held.Since.Local().Format(", since 2006-01-02 15:04:05")
	}
	return &failure{code: exitState, text: text, err: err,
		hint: "gpurun status -w shows it, gpurun stop ends it"}
}

// noStrayKeeper refuses to start beside jobs that nobody can ask about: their state
// folder has been removed while they ran on without their runner.
func (r *run) noStrayKeeper() error {
	for i := range r.batch.Files {
		if pid := local.StrayKeeper(r.state.Dir(i)); pid != 0 {
			return &failure{code: exitState, text: fmt.Sprintf("jobs of an earlier run of %s are still running under process %d, and %s was removed meanwhile",
				r.batch.Files[i].Path, pid, r.state.Dir(i)), hint: fmt.Sprintf("wait for their end, or end them (pstree -p %d lists them), then run it again", pid)}
		}
	}
	return nil
}
