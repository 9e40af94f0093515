package disk

import (
	"fmt"
	"time"

	"gpurun/state"
	"gpurun/state/host"
)

// An ElsewhereError reports that an attempt on another machine or in another PID namespace may
// still be running, which this process cannot check.
type ElsewhereError struct {
	Host  string
	Job   string
	Since time.Time
	Here  bool // this machine, but another PID namespace
}

func (e *ElsewhereError) Error() string {
	since := e.Since.Local().Format("2006-01-02 15:04")
	if e.Here {
		return fmt.Sprintf("%s (started %s) may still be running on this machine (%s), in another PID namespace (a container): run gpurun there, or gpurun run --abandon %s if the container is gone",
			e.Job, since, e.Host, e.Host)
	}
	return fmt.Sprintf("%s (started %s) may still be running on %s: run gpurun there, or gpurun run --abandon %s if the machine is gone", e.Job, since, e.Host, e.Host)
}

// OnThisHost reports whether a run's PIDs are valid here: it ran on this machine and in this PID
// namespace, as far as known.
func OnThisHost(run state.Fact) bool {
	here := Host()
	sameSpace := run.BootID != here.BootID || run.PIDNS == here.PIDNS || run.PIDNS == "" || here.PIDNS == ""
	return run.Kind == "" || sameMachine(run) && sameSpace
}

func sameMachine(run state.Fact) bool {
	here := Host()
	// Cloned machines share a machine-id, but not the host name or boot ID.
	clone := run.Host != here.Host && run.BootID != here.BootID
	return run.MachineID == here.MachineID && !clone && (run.MachineID != "" || run.Host == here.Host)
}

// elsewhere checks the open attempts of one ledger against the host of its last run. It returns
// ends for attempts that were cut off when the cluster job that contained their run ended, and for
// those that Options.Abandon gives up. These ends must be written to the ledger, because the next
// run will see this host as the last one. If this machine has rebooted since, the engine determines
// how the attempts ended.
func (s *State) elsewhere(file int, run state.Fact, o Options) ([]state.Fact, error) {
	here := OnThisHost(run)
	var given []state.Fact
	for _, a := range s.history.Attempts() {
		if a.Ledger != file || a.Start.Engine != "" { // a cluster's attempts can be checked from any login node
			continue
		}
		end := state.Fact{Kind: state.KindEnd, Time: time.Now().UTC(), Job: a.Start.Job, Key: a.Start.Key, UniID: a.Start.UniID, Attempt: a.Start.Attempt}
		var recorded, cut bool
		if run.Within = a.Within; o.Over != nil && (run.Within != "" || !here) { // the cluster job of the attempt's own run matters, not the last run's
			recorded, cut = o.Over(run, s.AttemptDir(file, a.Start.UniID), a.Start.UniID)
		}
		switch {
		case cut:
			end.State, end.Why, end.Cause = state.Interrupted, state.WhyInterrupted, state.CauseInterrupted
			end.Reason = "cut off: its run was in a cluster job that has ended"
		case here, recorded: // the engine determines how it ended
			continue
		case o.Abandon == "" || o.Abandon != run.Host:
			return nil, &ElsewhereError{Host: run.Host, Job: a.Start.Job, Since: a.Start.Time, Here: sameMachine(run)}
		default:
			end.State, end.ErrorType, end.Reason = state.Lost, state.ErrLost, "abandoned: it was on "+run.Host
		}
		given = append(given, end)
	}
	return given, nil
}

// Host returns a run fact that identifies this machine and PID namespace. The run's PIDs are valid
// only there.
func Host() state.Fact {
	return state.Fact{
		Kind: state.KindRun, Version: state.Version,
		MachineID: host.MachineID(), Host: host.Name(), BootID: host.BootID(), PIDNS: host.PIDNamespace(),
	}
}
