package keeper

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
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
		a.tell(&wire.Message{Op: wire.Declined, UniID: a.UniID, Why: no})
		return
	}
	a.rec.Save = host.Boottime() + m.Wait
	a.because(m.Why)
	a.announce(m.Why)
	a.push(catching, sig)
}

// push has processes save their work by a signal, also those of an attempt that is suspended.
func (a *attempt) push(catching []procs.ID, sig unix.Signal) {
	for _, id := range catching {
		_ = procs.Signal(id, sig)
	}
	if a.still {
		a.resume()
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
	return slices.DeleteFunc(slices.Clone(ids), func(id procs.ID) bool { return justForked(id, ids) })
}

// justForked reports whether a process has been forked by one of some a moment ago and has
// not executed its own program. It still shows what its parent catches, but will not: a
// shell's next command would die of the signal.
func justForked(id procs.ID, of []procs.ID) bool {
	age := host.Boottime() - time.Duration(id.Start)*10*time.Millisecond // in clock ticks
	p, ok := procs.One(id.PID)
	if !ok || age > forkedFor || !slices.ContainsFunc(of, func(o procs.ID) bool { return o.PID == p.Parent }) {
		return false
	}
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
	parents, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Parent))
	return own == parents
}

// forkedFor is how long a child may take to execute its program, on a busy machine.
const forkedFor = 200 * time.Millisecond

// saved stops an attempt that has had its time to save its work, or has ended before. That
// time was the whole grace of a timeout.
func (a *attempt) saved() {
	a.saving.Off()
	how := engine.Term
	if a.rec.Why == state.WhyTimeout && a.exit != nil {
		how = engine.Kill
	}
	a.stop(a.rec.Why, how)
}
