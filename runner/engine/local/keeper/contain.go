package keeper

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// A bug in a keeper's work for one attempt, claim or connection must not lose the statuses of all
// the other jobs: it is logged in keeper.log, and the keeper keeps running. Work that all jobs
// depend on, such as waiting for children, is not contained: a keeper that cannot do that should
// die, since its jobs are then found and waited for without it.

// contained runs f and reports whether it returned without a panic.
func contained(what string, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "internal error in %s: %v\n%s", what, p, debug.Stack())
		}
	}()
	f()
	return true
}

// contain runs f in a goroutine, with contained.
func (k *keeper) contain(what string, f func()) { go contained(what, f) }

// outlast is like contain, but the keeper does not exit before f returns.
func (k *keeper) outlast(what string, f func()) {
	k.mu.Lock()
	k.outlasts++
	k.mu.Unlock()
	k.contain(what, func() {
		f()
		k.mu.Lock()
		k.outlasts--
		k.mu.Unlock()
		k.checkQuiet()
	})
}

// live runs an attempt to its end. If a.run panics, live waits until the attempt's processes are
// gone. How the attempt ended is then unknown.
func (k *keeper) live(a *attempt) (ended *state.End) {
	if contained("the attempt "+a.UniID, func() { ended = a.run() }) {
		return ended
	}
	for len(k.left(a)) > 0 {
		time.Sleep(procs.TreeLook)
	}
	return &state.End{ExitCode: -1, Started: a.rec.Started, At: time.Now(), Lost: true}
}
