package keeper

import (
	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// Single runs one attempt in this process, without a socket: it is the keeper of a cluster job.
// The file of the status record exists already. tell receives the messages for a runner, asked
// delivers stops, and peaks returns the GPUs' peak memory for the record. Single returns once no
// process of the attempt is left.
func Single(l *engine.Launch, limits Limits, tell func(*wire.Message), asked <-chan *wire.Message, peaks func() ([]gpu.Peak, int)) (*state.End, error) {
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
	a.sendRunning()
	k.forget(a)
	k.checkQuiet()
	<-k.quiet
	return ended, nil
}
