package keeper

import (
	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// suspend stops the attempt's processes. It may be repeated, for new processes such as the next
// command. An attempt that is ending or saving its work is not suspended, because its processes
// must run for that.
func (a *attempt) suspend() {
	if a.ending.On() || a.saving.On() {
		return
	}
	a.suspended = true
	_ = a.k.freezeTree(a)
}

func (a *attempt) resume() {
	a.suspended = false
	for _, id := range a.k.members(a) {
		_ = procs.Signal(id, unix.SIGCONT)
	}
}
