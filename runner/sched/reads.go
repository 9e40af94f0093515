package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// When GPUs are read: all of them every poll while a ready job waits for one, and
// to find strays; those with jobs of this run as watch.go says; one that such a job
// has just left quickly and again and again, until the next job is on it.
const (
	handOverFirst = 5 * time.Millisecond  // doubled each time,
	handOverFine  = 20 * time.Millisecond // and no longer than this, or an eighth of the time since the job's end
	handOverFor   = 30 * time.Second
	readingLost   = 2 * time.Minute // an answer that has not come by then never will
	longestPause  = time.Minute     // between readings that fail; or a poll
)

type reads struct {
	next     time.Duration // when all may be read again
	asked    time.Duration // when that was last asked for
	out      bool          // and not yet answered
	answered time.Duration // when all were last read with success
	tried    time.Duration // when such a reading last came back, with success or without
	ever     bool          // some reading of all has come back
	failures int           // in a row
	err      string        // of the last one
	hands    []handOver
	watch    watch
	stray    time.Duration // when all are to be read for strays; 0 for never
}

// handOver is a GPU that a job of this run has just left.
type handOver struct {
	id         gpu.UUID
	began, due time.Duration
	pause      time.Duration
	out        bool // a quick reading of it is under way
}

// freed begins a hand-over.
func (r *reads) freed(now time.Duration, ids []gpu.UUID) {
	r.taken(ids)
	for _, id := range ids {
		r.hands = append(r.hands, handOver{id: id, began: now, due: now, pause: handOverFirst})
	}
}

// again says when to read next. A quick reading costs next to nothing: memory that
// has come back is to be seen soon, measured by how long it took. A list of
// processes costs milliseconds, and pauses after one just double.
func (h *handOver) again(now time.Duration, quick bool) {
	h.due = now + h.pause
	h.pause *= 2
	if quick {
		h.pause = min(h.pause, max(handOverFine, (now-h.began)/8))
	}
}

// taken ends the hand-over of GPUs that a job stands on again.
func (r *reads) taken(ids []gpu.UUID) {
	if len(r.hands) > 0 {
		r.hands = slices.DeleteFunc(r.hands, func(h handOver) bool { return slices.Contains(ids, h.id) })
	}
}

// expire gives up hand-overs after which the memory did not come back in time.
func (r *reads) expire(now time.Duration) {
	if len(r.hands) > 0 {
		r.hands = slices.DeleteFunc(r.hands, func(h handOver) bool { return now-h.began >= handOverFor })
	}
}

// observe takes over a reading. Of a quick one the pool learns only what a hand-over
// asked for, and what does not answer: nobody can say whose the memory on a GPU in
// use is without the processes there.
func (c *Core) observe(ev Snapshot) {
	if c.pool == nil {
		return
	}
	c.see(ev)
	if ev.Quick && ev.Snap.Err == "" {
		if ev.Snap.Readings = c.forPool(ev.Snap.Readings); len(ev.Snap.Readings) == 0 {
			return
		}
	}
	c.pool.Observe(ev.Snap)
	r := &c.reads
	for i := range r.hands {
		h := &r.hands[i]
		if h.out && (ev.Snap.Err != "" || reading(ev.Snap, h.id) != nil) {
			h.out = false
			h.again(c.now.Boot, ev.Quick && ev.Snap.Err == "")
		}
	}
	c.refill, c.looked = true, true
	if ev.Quick {
		return
	}
	if ev.Snap.Err == "" && len(ev.Snap.Readings) < len(c.pool.Devices()) {
		return
	}
	r.out, r.ever, r.tried, r.err = false, true, c.now.Boot, ev.Snap.Err
	if ev.Snap.Err == "" {
		r.answered, r.failures = c.now.Boot, 0
		c.strayLooked()
		return
	}
	r.failures++
	r.next = max(r.next, r.asked+c.pollPause())
}

// forPool are the quick readings that the pool is told.
func (c *Core) forPool(all []gpu.Reading) []gpu.Reading {
	var some []gpu.Reading
	for _, r := range all {
		if r.Err != "" || slices.ContainsFunc(c.reads.hands, func(h handOver) bool { return h.id == r.UUID }) {
			some = append(some, r)
		}
	}
	return some
}

// pollPause is the time between two readings of all GPUs; it grows while they fail.
func (c *Core) pollPause() time.Duration {
	poll := max(c.b.Settings.Poll, shortPause)
	if c.reads.failures == 0 {
		return poll
	}
	return min(poll<<min(c.reads.failures, 10), max(longestPause, poll))
}

func reading(s gpu.Snapshot, id gpu.UUID) *gpu.Reading {
	for i := range s.Readings {
		if s.Readings[i].UUID == id {
			return &s.Readings[i]
		}
	}
	return nil
}

// read asks for the readings that are due.
func (c *Core) read() {
	if c.pool == nil || c.draining != "" && c.live.n == 0 {
		return
	}
	r := &c.reads
	now := c.now.Boot
	want := c.waiter.id >= 0 && !c.readFreed() && !r.handing() || r.stray > 0 && now >= r.stray
	if want && now >= r.next && !r.waits(now) {
		r.asked, r.out, r.next = now, true, now+c.pollPause()
		r.watch.listed(now)
		c.do(Read{})
	}
	c.readWatched()
}

// readFreed asks for the quick readings of hand-overs that are due.
func (c *Core) readFreed() bool {
	var ids []gpu.UUID
	for i := range c.reads.hands {
		if h := &c.reads.hands[i]; !h.out && h.due <= c.now.Boot && !slices.Contains(c.excluded, h.id) {
			h.out = true
			ids = append(ids, h.id)
		}
	}
	if len(ids) > 0 {
		// Where other jobs stand, free memory alone does not tell whose it is.
		c.do(Read{UUIDs: ids, Processes: c.pool.Crowded(ids)})
	}
	return len(ids) > 0
}

// handing says that a quick reading is under way: a reading of all GPUs, which
// takes longer, waits for it.
func (r *reads) handing() bool {
	for i := range r.hands {
		if r.hands[i].out {
			return true
		}
	}
	return false
}

func (r *reads) waits(now time.Duration) bool { return r.out && now-r.asked <= readingLost }

// standing are the GPUs that started attempts of this run hold.
func (c *Core) standing() []gpu.UUID {
	var ids []gpu.UUID
	for a := c.live.first; a != nil; a = a.next {
		if a.uniID == "" {
			continue
		}
		for _, id := range a.grant.UUIDs {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
