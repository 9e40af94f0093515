package keeper

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// makeWay asks the attempt to save its work, and stops it after a while. Only processes
// that catch the signal get it: it would end any other. If none does, nothing of its work
// would be saved, so it continues.
func (a *attempt) makeWay(m *wire.Message) {
	if a.ending.On() || a.rec.Why != "" {
		return // it is on its way already
	}
	sig := unix.SignalNum("SIG" + m.Signal)
	catching, no := a.catching(sig), ""
	switch {
	case a.exit == nil:
		no = "its commands have ended, and what they left in the background continues"
	case len(catching) == 0:
		no = fmt.Sprintf("none of its processes catches SIG%s", m.Signal)
	}
	if no != "" {
		a.k.tell(&wire.Message{Op: wire.Declined, UniID: a.UniID, Why: no})
		return
	}
	a.rec.Save = host.Boottime() + m.Wait
	a.because(m.Why)
	a.announce(m.Why)
	for _, id := range catching {
		_ = procs.Signal(id, sig)
	}
	a.saving.Set(a.rec.Save)
}

// catching lists the attempt's processes that catch a signal.
func (a *attempt) catching(sig unix.Signal) (ids []procs.ID) {
	for _, id := range a.k.members(a) {
		if procs.Catches(id.PID, sig) {
			ids = append(ids, id)
		}
	}
	return ids
}

// saved stops an attempt that has had its time to save its work.
func (a *attempt) saved() {
	a.saving.Off()
	a.stop(a.rec.Why, engine.Term)
}
