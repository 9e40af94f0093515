package keeper

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// timedOut ends the attempt because its timeout expired. If there is a runner, its ledger
// records the reason first. The job's own signal goes only to processes that catch it, which then
// get time to save their work.
func (a *attempt) timedOut() {
	if a.ending.On() {
		return
	}
	n := a.rec.StopSignal()
	var catching []procs.ID
	if n.Signal != "" && a.exit != nil && !a.saving.On() {
		catching = a.catching(unix.SignalNum("SIG" + n.Signal))
	}
	if len(catching) > 0 {
		a.rec.Save = host.Boottime() + n.Grace
	}
	a.recordReason(state.WhyTimeout)
	a.announce(state.WhyTimeout)
	if len(catching) == 0 {
		a.end(n.Grace)
		return
	}
	a.signalSave(catching, unix.SignalNum("SIG"+n.Signal))
}

// announce reports to the runner why the attempt is about to be signaled, and waits up to AckWait
// until the ledger has the reason.
func (a *attempt) announce(why string) {
	if !a.k.hasRunner() {
		return
	}
	a.send(&wire.Message{Op: wire.Stopping, UniID: a.UniID, Why: why})
	select {
	case <-a.acks:
	case <-time.After(wire.AckWait):
	}
}

// recordReason writes the reason for a stop into the record, before any signal. It keeps the
// first reason.
func (a *attempt) recordReason(why string) {
	if a.rec.Why != "" || why == "" {
		return
	}
	a.rec.Why = why
	_ = a.put()
}

// stop begins to end the attempt, or speeds up an end in progress.
func (a *attempt) stop(why string, how engine.StopMode) {
	a.recordReason(why)
	if how == engine.Kill {
		a.end(0)
	} else {
		a.end(a.Grace)
	}
}

// end signals the attempt's processes, with SIGKILL after grace.
func (a *attempt) end(grace time.Duration) {
	a.ending.Begin(grace)
	if a.leader.PID != 0 {
		a.signalTree()
	}
}

// signalTree signals the processes of the tree that are alive now, and schedules another look
// soon, since a process that forks may have slipped through.
func (a *attempt) signalTree() {
	var ids []procs.ID
	if a.ending.Kills() {
		ids = a.k.freezeTree(a)
	} else {
		ids = a.k.members(a)
	}
	a.signal(ids)
}

// signal sends processes the next signal, and notes those that not even SIGKILL has ended.
func (a *attempt) signal(ids []procs.ID) {
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
	case <-a.stops.Poked:
		a.takeStops()
	case <-a.timeout.C():
		if a.timeout.Due() {
			a.timedOut()
		}
	case <-a.ending.Look():
	}
}

// Pauses before a record is written again, and how many times that is tried while a runner
// waits for the end.
const (
	saveAgain = 100 * time.Millisecond
	saveLater = 5 * time.Second
	saveTries = 3
)

// save overwrites the record with the end, retrying until the disk accepts it. After a few tries it
// returns the reason, so that a waiting runner learns of the end and records it in the ledger,
// which is another file.
func (a *attempt) save() (unsaved string) {
	err := a.put()
	for tries, pause := 0, saveAgain; err != nil && (tries < saveTries || !a.k.hasRunner()); tries, pause = tries+1, min(2*pause, saveLater) {
		<-time.After(pause)
		err = a.put()
	}
	if err == nil {
		return ""
	}
	a.k.saveLater(a.file, a.rec)
	return fmt.Sprintf("cannot write %s: %v", a.file.Name(), err)
}

// saveLater keeps trying until the disk accepts the record or its file has been removed. The
// keeper stays until then. The run has been notified and starts nothing more, so no other attempt
// gets the slot.
func (k *keeper) saveLater(f *os.File, r wire.Record) {
	k.outlast("writing a record", func() {
		for r.Put(f) != nil && linked(f) {
			<-time.After(saveLater)
		}
	})
}
