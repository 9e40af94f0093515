package hostsim

import (
	"slices"
	"time"
)

// A watch notifies a run of changes in the folders, as gpu/claim's does.
type watch struct {
	run    *run
	guests map[string]bool // runs that this run has offered a GPU
	last   time.Duration
	told   int           // number of the pending report
	when   time.Duration // when it is due; 0 if none is pending
	cost   time.Duration // cost of the last reading
	blind  bool          // the folders cannot be watched
}

// These limit how often changes that are not urgent are reported, and the share of time spent on
// reading them.
const (
	wishEvery  = 100 * time.Millisecond
	claimEvery = time.Second
	costRatio  = 20
	urgentMost = 4
)

// begin polls the folders once a second if they cannot be watched.
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

// claim reports a change of a claim. The owner of a removed claim is unknown.
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

// due schedules a report, at least pause after the last one.
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
