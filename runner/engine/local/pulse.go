package local

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state/host"
)

// A keeper that is stopped or hangs ends no jobs and reports no ends. So the runner regularly asks
// each keeper for an answer, and warns the user if there is none. Keepers of every version answer
// when asked about an unknown attempt.

const (
	pulseEvery = time.Second
	askAfter   = 2 // pulses without a message until a keeper is asked,
	silentFrom = 6 // and until it counts as silent
)

// pulseID is the uni_id of an attempt that no keeper has.
const pulseID = "pulse"

// watchKeepers checks the keepers until the engine is closed. It counts pulses rather than time,
// because if this process itself was stopped, answers may be waiting to be read.
func (l *Local) watchKeepers() {
	tick := time.Tick(pulseEvery)
	for {
		select {
		case <-tick:
			l.pulse()
		case <-l.stop:
			return
		}
	}
}

func (l *Local) pulse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	silent := []string{}
	for _, r := range l.remotes() {
		if n := r.heard.Load(); n != r.known {
			r.known, r.quiet = n, 0
			continue
		}
		if r.quiet++; r.quiet == askAfter {
			_ = r.link.Send(&wire.Message{Op: wire.Adopt, UniID: pulseID})
		}
		if r.quiet >= silentFrom {
			silent = append(silent, r.silence())
		}
	}
	slices.Sort(silent)
	if !slices.Equal(silent, l.silent) {
		l.silent = silent
		l.emit(engine.Event{Silent: &silent})
	}
}

// silence describes a keeper that does not answer.
func (r *remote) silence() string {
	if r.pid == 0 {
		r.pid = findKeeper(func(_ int, socket string) bool { return socket == r.socket })
	}
	if r.pid == 0 {
		return "the keeper of an earlier run does not answer"
	}
	return fmt.Sprintf("keeper %d does not answer: if it is stopped, run kill -CONT %[1]d", r.pid)
}

// failedStartsMost is how many keepers in a row may end before sending anything.
const failedStartsMost = 3

// countFailedStart records whether a keeper that is gone ever sent anything. l.mu is held.
func (l *Local) countFailedStart(r *remote) {
	if r != l.own {
		return
	}
	if l.failedStarts++; r.heard.Load() > 0 {
		l.failedStarts = 0
	}
}

// lastLogLine returns the last line of keeper.log.
func (l *Local) lastLogLine() string {
	b, err := host.ReadOwn(filepath.Join(l.Dir, "keeper.log"), 1<<26)
	if err != nil || l.Dir == "" {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(lines[len(lines)-1])
}
