package keeper

import (
	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// suspend stops the attempt's processes. It may be repeated, for those that have turned up since,
// such as its next command. Ending it goes before: its processes go on for that.
func (a *attempt) suspend() {
	if !a.ending.On() {
		_ = a.k.frozen(a)
	}
}

// resume has them go on.
func (a *attempt) resume() {
	for _, id := range a.k.members(a) {
		_ = procs.Signal(id, unix.SIGCONT)
	}
}
