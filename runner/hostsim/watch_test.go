package hostsim

import (
	"slices"
	"time"
)

// A watch tells a run of what changes in the folders, as gpu/claim's does.
type watch struct {
	run    *run
	guests map[string]bool // runs that have been offered something
	last   time.Duration
	told   int // pending
	when   time.Duration
	cost   time.Duration // of the latest reading
	blind  bool          // the folders cannot be watched
}

// How often news that is not urgent is told, and what part of the time reading them may take.
const (
	wishEvery  = 100 * time.Millisecond
	claimEvery = time.Second
	costRatio  = 20
	urgentMost = 4
)

// begin reads the folders once a second if they cannot be watched.
func (w *watch) begin() {
	if w.blind = w.run.blind(w.run.uid); w.blind {
		w.poll()
	}
}

func (w *watch) poll() {
	if w.run.done {
		return
	}
	w.run.notice()
	w.run.soon(claimEvery, w.poll)
}

// claim tells of a change of a claim. Of one that is gone nobody knows whose it was.
func (w *watch) claim(c *claim, gone bool) {
	urgent := !gone && slices.ContainsFunc(c.on, func(s stake) bool {
		return s.to == w.run.id || s.to == "" && w.guests[c.owner]
	})
	if urgent {
		w.tell(max(w.last+urgentMost*w.cost-w.run.now, 0) + w.run.between(ms(1), ms(20)))
	} else {
		w.due(claimEvery)
	}
}

// due has something told this long after the last telling.
func (w *watch) due(pause time.Duration) {
	w.tell(max(w.last+max(pause, costRatio*w.cost)-w.run.now, 0) + w.run.between(ms(1), ms(20)))
}

func (w *watch) tell(in time.Duration) {
	at := w.run.now + in
	if w.blind || w.when > w.run.now && w.when <= at {
		return
	}
	w.told++
	mine := w.told
	w.when = at
	w.run.soon(in, func() {
		if w.told == mine && !w.run.done {
			w.last, w.when = w.run.now, 0
			w.run.notice()
		}
	})
}
