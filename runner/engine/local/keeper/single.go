package keeper

import (
	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// Single runs one attempt in this process, on which nobody calls: the keeper of a cluster's
// job. The file of the status record exists already. tell gets what a runner would
// be told, asked brings stops, and peaks says what its GPUs have shown, for the record. It
// returns once nothing of the attempt is left.
func Single(l *engine.Launch, limits Limits, tell func(*wire.Message), asked <-chan *wire.Message, peaks func() ([]gpu.Peak, int)) (*engine.Ended, error) {
	ignoreTerminal()
	closeOnExec()
	k, err := newKeeper()
	if err != nil {
		return nil, err
	}
	k.limits, k.tell, k.peaks = limits, tell, peaks
	go k.reaper.wait()
	a := newAttempt(k, l)
	k.mu.Lock()
	k.attempts[l.UniID] = a
	k.mu.Unlock()
	go func() {
		for m := range asked {
			a.stops.Put(m)
		}
	}()
	ended := k.live(a)
	a.tellRunning()
	k.forget(a)
	k.checkQuiet()
	<-k.quiet
	return ended, nil
}
