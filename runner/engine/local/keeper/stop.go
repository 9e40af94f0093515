package keeper

import (
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"time"
)

// timedOut ends the attempt because its timeout expired. If there is a runner, its ledger
// gets the reason first.
func (a *attempt) timedOut() {
	if a.ending.On() {
		return
	}
	a.because(state.WhyTimeout)
	if a.k.heard() {
		a.k.tell(&wire.Message{Op: wire.Stopping, UniID: a.UniID, Why: state.WhyTimeout})
		t := time.NewTimer(wire.AckWait)
		defer t.Stop()
		select {
		case <-a.acks:
		case <-t.C:
		}
	}
	a.stop(state.WhyTimeout, engine.Term)
}

// because writes the reason for a stop into the record, before any signal. The first
// reason stands.
func (a *attempt) because(why string) {
	if a.rec.Why != "" || why == "" {
		return
	}
	a.rec.Why = why
	_ = a.rec.Put(a.file)
}

// stop begins to end the attempt, or speeds it up.
func (a *attempt) stop(why string, how engine.How) {
	a.because(why)
	grace := a.Grace
	if how == engine.Kill {
		grace = 0
	}
	a.ending.Begin(grace)
	if a.leader.PID != 0 {
		a.press()
	}
}

// press signals the processes of the tree that are alive now, and schedules another look
// soon, since a process that forks may have slipped through.
func (a *attempt) press() {
	var ids []procs.ID
	if a.ending.Kills() {
		ids = a.k.frozen(a)
	} else {
		ids = a.k.members(a)
	}
	a.ending.Signal(ids, a.leader)
	if a.ending.Stuck() {
		for _, id := range ids {
			a.rec.Stuck = append(a.rec.Stuck, id.PID)
		}
	}
	a.ending.Again(procs.LastLook)
}

// idle waits for a reason to look again.
func (a *attempt) idle() {
	select {
	case <-a.kicks:
	case <-a.stops:
		a.takeStops()
	case <-a.timeout.C():
		if a.timeout.Due() {
			a.timedOut()
		}
	case <-a.ending.Look():
	}
}
