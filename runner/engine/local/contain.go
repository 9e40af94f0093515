package local

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"gpurun/runner/engine"
)

// A bug in what a keeper does for one attempt, one claim or one connection must not
// cost the statuses of all the other jobs: it is told in keeper.log, and the keeper
// goes on. What all of them depend on, such as waiting for children, is not
// contained: a keeper without it is better dead, since its jobs are then found and
// waited for without it.

// contained runs f; false when it panicked.
func contained(what string, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "internal error in %s: %v\n%s", what, p, debug.Stack())
		}
	}()
	f()
	return true
}

// contain starts a goroutine of the keeper's.
func (k *keeper) contain(what string, f func()) { go contained(what, f) }

// live runs an attempt to its end. Where that fails, its processes are waited for,
// and nobody knows how they ended.
func (k *keeper) live(a *attempt) (ended *engine.Ended) {
	if contained("the attempt "+a.UniID, func() { ended = a.run() }) {
		return ended
	}
	for len(k.left(a)) > 0 {
		time.Sleep(treeLook)
	}
	return &engine.Ended{ExitCode: -1, Started: a.rec.Started, At: time.Now(), Lost: true}
}
