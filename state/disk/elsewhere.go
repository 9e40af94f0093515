package disk

import (
	"fmt"
	"time"

	"gpurun/state"
)

// An ElsewhereError says that an attempt of another machine or pid namespace may
// still run: nothing here can tell.
type ElsewhereError struct {
	Host  string
	Job   string
	Since time.Time
	Here  bool // this machine, but another pid namespace
}

func (e *ElsewhereError) Error() string {
	since := e.Since.Local().Format("2006-01-02 15:04")
	if e.Here {
		return fmt.Sprintf("%s may still run on this machine (%s) since %s, but in another pid namespace (a container), which cannot be seen from here: run gpurun there, or --abandon %s if it is gone",
			e.Job, e.Host, since, e.Host)
	}
	return fmt.Sprintf("%s may still run on %s since %s: run gpurun there, or --abandon %s", e.Job, e.Host, since, e.Host)
}

// OnThisHost reports whether pids of a run mean something to this process: it was
// on this machine and in this pid namespace, or nothing says otherwise.
func OnThisHost(run state.Fact) bool {
	here := Host()
	sameSpace := run.BootID != here.BootID || run.PIDNS == here.PIDNS || run.PIDNS == "" || here.PIDNS == ""
	return run.Kind == "" || sameMachine(run) && sameSpace
}

func sameMachine(run state.Fact) bool {
	here := Host()
	// Clones of one machine share its machine-id, but neither name nor boot.
	clone := run.Host != here.Host && run.BootID != here.BootID
	return run.MachineID == here.MachineID && !clone && (run.MachineID != "" || run.Host == here.Host)
}

// elsewhere judges the open attempts of one ledger, whose last run was on host.
// With abandon naming that host they are given up: the facts say so, and must go
// into the ledger, since the next run's host will be this one. A machine that has
// booted since is another matter, and the engine's.
func elsewhere(h *state.History, file int, run state.Fact, abandon string) ([]state.Fact, error) {
	if OnThisHost(run) {
		return nil, nil
	}
	var given []state.Fact
	for _, a := range h.Attempts() {
		if a.Ledger != file {
			continue
		}
		if abandon == "" || abandon != run.Host {
			return nil, &ElsewhereError{Host: run.Host, Job: a.Start.Job, Since: a.Start.Time, Here: sameMachine(run)}
		}
		given = append(given, state.Fact{Kind: state.KindEnd, Time: time.Now().UTC(), Job: a.Start.Job, Key: a.Start.Key,
			UniID: a.Start.UniID, Attempt: a.Start.Attempt, State: state.Lost, ErrorType: state.ErrLost,
			Reason: "given up: it was on " + run.Host})
	}
	return given, nil
}
