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

// requestSave asks the attempt to save its work, and stops it after m.Wait. It signals only
// processes that catch the signal, because the signal would end any other. If none does, the
// attempt continues, because stopping it would lose its work.
func (a *attempt) requestSave(m *wire.Message) {
	if a.ending.On() || a.rec.Why != "" {
		return // it is already stopping
	}
	sig := unix.SignalNum("SIG" + m.Signal)
	catching, no := a.catching(sig), ""
	switch {
	case a.exit == nil:
		no = "its commands have ended, but their background processes continue"
	case len(catching) == 0:
		no = fmt.Sprintf("none of its processes catches SIG%s", m.Signal)
	}
	if no != "" {
		a.send(&wire.Message{Op: wire.Declined, UniID: a.UniID, Why: no})
		return
	}
	a.rec.Save, a.rec.Aside = host.Boottime()+m.Wait, !slices.Contains(catching, a.leader)
	a.recordReason(m.Why)
	a.announce(m.Why)
	a.signalSave(catching, sig)
}

// signalSave sends processes the signal to save their work, and resumes a suspended attempt.
func (a *attempt) signalSave(catching []procs.ID, sig unix.Signal) {
	for _, id := range catching {
		_ = procs.Signal(id, sig)
	}
	if a.suspended {
		a.resume()
	}
	a.saving.Set(a.rec.Save)
}

// catching lists the attempt's processes that catch a signal.
func (a *attempt) catching(sig unix.Signal) []procs.ID {
	ids := slices.DeleteFunc(a.k.members(a), func(id procs.ID) bool { return !procs.Catches(id.PID, sig) })
	return slices.DeleteFunc(slices.Clone(ids), func(id procs.ID) bool { return justForked(id, ids) })
}

// justForked reports whether a process was just forked by one of the processes in of, and has not
// executed its own program yet. Until it does, it has its parent's signal handlers. But a signal
// sent now may arrive only after that, when nothing catches it, and kill a shell's next command.
func justForked(id procs.ID, of []procs.ID) bool {
	age := host.Boottime() - id.Began()
	p, ok := procs.One(id.PID)
	if !ok || age > forkedFor || !slices.ContainsFunc(of, func(o procs.ID) bool { return o.PID == p.Parent }) {
		return false
	}
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
	parents, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Parent))
	return own == parents
}

// forkedFor is how long a child may take to execute its program, on a busy machine. A child that does
// not execute one has hardly any work to save by then.
const forkedFor = 2 * time.Second

// stopAfterSave stops an attempt whose time to save its work is over, or whose command has already
// ended. After a timeout, the time to save its work was its whole grace period.
func (a *attempt) stopAfterSave() {
	a.saving.Off()
	how := engine.Term
	if a.rec.Why == state.WhyTimeout && a.exit != nil {
		how = engine.Kill
	}
	a.stop(a.rec.Why, how)
}
