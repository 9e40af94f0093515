package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gpurun/runner/engine"
	"gpurun/state/host"
)

// A keeper that is stopped, or that hangs, ends no job and tells of no end. So each
// is asked now and then whether it is still there, and a person is told when no
// answer comes. Every keeper, of any version, answers to an attempt that it has never
// heard of.

const (
	pulseEvery = time.Second
	askAfter   = 2 // pulses without a word until a keeper is asked,
	silentFrom = 6 // and until it is silent
)

// pulseID is an attempt that no keeper has.
const pulseID = "pulse"

// watchKeepers asks keepers for as long as the engine is open. It counts pulses and
// not time: where this process was stopped itself, answers wait to be read.
func (l *Local) watchKeepers() {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
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
			_ = r.link.send(&message{Op: opAdopt, UniID: pulseID})
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

// silence says that a keeper does not answer.
func (r *remote) silence() string {
	if r.pid == 0 {
		r.pid = keeperOf(r.socket)
	}
	if r.pid == 0 {
		return "the keeper of an earlier run does not answer"
	}
	return fmt.Sprintf("keeper %d does not answer (stopped? kill -CONT %[1]d)", r.pid)
}

// keeperOf is the pid of the keeper that listens on a socket, or 0. The kernel knows
// who made the socket, which was the keeper's runner.
func keeperOf(socket string) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		b, err := os.ReadFile(path)
		args := bytes.Split(b, []byte{0})
		if err == nil && len(args) > 2 && string(args[1]) == "__keeper" && string(args[2]) == socket {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// stillbornMost is how many keepers in a row may end before they say anything.
const stillbornMost = 3

// errStillborn is why no further keeper is started.
var errStillborn = errors.New("the keeper ends as soon as it is started")

// buried takes note of whether a keeper that is gone ever said anything. l.mu is held.
func (l *Local) buried(r *remote) {
	if r != l.own {
		return
	}
	if l.stillborn++; r.heard.Load() > 0 {
		l.stillborn = 0
	}
}

// lastWords are the end of keeper.log.
func (l *Local) lastWords() string {
	b, err := host.ReadOwn(filepath.Join(l.Dir, "keeper.log"), 1<<26)
	if err != nil || l.Dir == "" {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(lines[len(lines)-1])
}
