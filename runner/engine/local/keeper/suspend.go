package keeper

import (
	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// suspend stops the attempt's processes. It may be repeated, for those that have turned up since,
// such as its next command. Ending it goes before, and so does the save of its work: its processes
// go on for that.
func (a *attempt) suspend() {
	if a.ending.On() || a.saving.On() {
		return
	}
	a.still = true
	_ = a.k.frozen(a)
}

// resume has them go on.
func (a *attempt) resume() {
	a.still = false
	for _, id := range a.k.members(a) {
		_ = procs.Signal(id, unix.SIGCONT)
	}
}
