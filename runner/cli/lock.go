package cli

import (
	"errors"
	"fmt"

	"gpurun/state"
	"gpurun/state/disk"
)

// openState opens and locks the state of job files.
func (r *reader) openState(paths []string, abandon string) (*disk.State, error) {
	s, err := disk.Open(paths, disk.Options{StateDir: r.stateDir, Abandon: abandon, Trace: trace, Over: endedElsewhere(), Go: r.start})
	if err != nil {
		return nil, stateFailure(err)
	}
	return s, nil
}

// endedElsewhere returns a function that reports whether an attempt is over that may have run elsewhere: its end
// is on record, or nothing of it is left since the cluster's job around its run has ended.
func endedElsewhere() func(run state.Fact, dir, uniID string) (recorded, cut bool) {
	gone, look := map[string]bool{"": false}, looker()
	return func(run state.Fact, dir, uniID string) (recorded, cut bool) {
		if _, asked := gone[run.Within]; !asked {
			gone[run.Within] = allocation().Over(run.Within, dialects...)
		}
		found := look(dir, uniID)
		return found.Ended != nil, gone[run.Within] && found.Ended == nil && found.PID == 0
	}
}

// stateFailure reports why the state cannot be used, and who is using it.
func stateFailure(err error) error {
	var held *disk.LockedError
	if !errors.As(err, &held) {
		return &failure{code: exitState, text: err.Error(), err: err}
	}
	text := fmt.Sprintf("%s is already running", held.File)
	if held.PID > 0 {
		text += fmt.Sprintf(" as process %d on %s", held.PID, held.Host)
	} else if held.Host != "" {
		text += " on " + held.Host
	}
	if held.Space {
		text += ", in another pid namespace (a container)"
	}
	if !held.Since.IsZero() {
		text += held.Since.Local().Format(", since 2006-01-02 15:04:05")
	}
	hint := "gpurun status -w shows it, gpurun stop ends it"
	if held.Elsewhere {
		hint = "its state is in another folder, or was removed: give gpurun status and stop its --state-dir, or the name it was started with"
		if held.PID > 0 {
			hint += fmt.Sprintf(" (ps -fp %d shows both)", held.PID)
		}
	}
	return &failure{code: exitState, text: text, err: err, hint: hint}
}

// noStrayKeeper refuses to start next to jobs that cannot be tracked: their state
// folder was removed while they kept running without their runner.
func (r *run) noStrayKeeper() error {
	for i := range r.batch.Files {
		if pid := engines["local"].Stray(r.state.Dir(i)); pid != 0 {
			return &failure{code: exitState, text: fmt.Sprintf("jobs of an earlier run of %s are still running under process %d, but %s was removed",
				r.batch.Files[i].Path, pid, r.state.Dir(i)), hint: fmt.Sprintf("wait for them or kill them (pstree -p %d lists them), then try again", pid)}
		}
	}
	return nil
}
