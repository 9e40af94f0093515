package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// When GPUs are read: all of them at every poll while a ready job waits for one, and
// to find strays; those with jobs of this run as described in watch.go; and one that
// such a job just left, in quick succession until the next job is on it.
const (
	handOverFirst = 5 * time.Millisecond  // doubles each time,
	handOverFine  = 20 * time.Millisecond // up to this or, if longer, an eighth of the time since the job ended
	handOverFor   = 30 * time.Second
	readingLost   = 2 * time.Minute // after this long, no answer is coming
	longestPause  = time.Minute     // between failing readings, or a poll if that is longer
)

type reads struct {
	next     time.Duration // when all GPUs may be read again
	asked    time.Duration // when that was last requested
	out      bool          // requested and not yet answered
	answered time.Duration // when all were last read successfully
	tried    time.Duration // when such a reading last came back, successful or not
	ever     bool          // some reading of all GPUs has come back
	failures int           // in a row
	err      string        // the latest failure
	hands    []handOver
	watch    watch
	stray    time.Duration // when to read all GPUs for strays; 0 for never
}

// handOver is a GPU that a job of this run just left.
type handOver struct {
	id         gpu.UUID
	began, due time.Duration
	pause      time.Duration
	out        bool // a quick reading of it is in progress
}

// freed begins hand-overs.
func (r *reads) freed(now time.Duration, ids []gpu.UUID) {
	r.taken(ids)
	for _, id := range ids {
		r.hands = append(r.hands, handOver{id: id, began: now, due: now, pause: handOverFirst})
	}
}

// again schedules the next reading. A quick one costs almost nothing, so that returned
// memory is noticed soon, in proportion to how long it took to come back. A process list
// costs milliseconds; pauses after one simply double.
func (h *handOver) again(now time.Duration, quick bool) {
	h.due = now + h.pause
	h.pause *= 2
	if quick {
		h.pause = min(h.pause, max(handOverFine, (now-h.began)/8))
	}
}

// taken ends the hand-over of GPUs that a job holds again.
func (r *reads) taken(ids []gpu.UUID) {
	if len(r.hands) > 0 {
		r.hands = slices.DeleteFunc(r.hands, func(h handOver) bool { return slices.Contains(ids, h.id) })
	}
}

// expire ends hand-overs whose memory did not come back in time.
func (r *reads) expire(now time.Duration) {
	if len(r.hands) > 0 {
		r.hands = slices.DeleteFunc(r.hands, func(h handOver) bool { return now-h.began >= handOverFor })
	}
}

// observe processes a reading. From a quick one the pool learns only about GPUs in
// hand-over and GPUs that do not answer: on a GPU in use, nobody can tell whose the
// memory is without a process list.
func (c *Core) observe(ev Observed) {
	if c.pool == nil {
		return
	}
	c.see(ev)
	if ev.Quick && ev.Err == "" {
		if ev.Readings = c.forPool(ev.Readings); len(ev.Readings) == 0 {
			return
		}
	}
	c.pool.Observe(ev.Observation)
	r := &c.reads
	for i := range r.hands {
		h := &r.hands[i]
		if h.out && (ev.Err != "" || reading(ev.Observation, h.id) != nil) {
			h.out = false
			h.again(c.now.Boot, ev.Quick && ev.Err == "")
		}
	}
	c.refill = true
	if ev.Quick {
		return
	}
	if ev.Err == "" && len(ev.Readings) < len(c.pool.Devices()) {
		return
	}
	r.out, r.ever, r.tried, r.err = false, true, c.now.Boot, ev.Err
	if ev.Err == "" {
		r.answered, r.failures = c.now.Boot, 0
		c.strayLooked()
		return
	}
	r.failures++
	r.next = max(r.next, r.asked+c.pollPause())
}

// forPool returns the quick readings that the pool should see.
func (c *Core) forPool(all []gpu.Reading) []gpu.Reading {
	var some []gpu.Reading
	for _, r := range all {
		if r.Err != "" || slices.ContainsFunc(c.reads.hands, func(h handOver) bool { return h.id == r.UUID }) {
			some = append(some, r)
		}
	}
	return some
}

// pollPause returns the time between readings of all GPUs. It grows while they fail.
func (c *Core) pollPause() time.Duration {
	poll := max(c.b.Settings.Poll, shortPause)
	if c.reads.failures == 0 {
		return poll
	}
	return min(poll<<min(c.reads.failures, 10), max(longestPause, poll))
}

func reading(s gpu.Observation, id gpu.UUID) *gpu.Reading {
	for i := range s.Readings {
		if s.Readings[i].UUID == id {
			return &s.Readings[i]
		}
	}
	return nil
}

// read requests the readings that are due.
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

// readFreed requests the quick readings that are due for hand-overs, and reports whether
// there are any.
func (c *Core) readFreed() bool {
	var ids []gpu.UUID
	for i := range c.reads.hands {
		if h := &c.reads.hands[i]; !h.out && h.due <= c.now.Boot && !slices.Contains(c.excluded, h.id) {
			h.out = true
			ids = append(ids, h.id)
		}
	}
	if len(ids) > 0 {
		// If other jobs are there, free memory alone does not tell whose it is.
		c.do(Read{UUIDs: ids, Processes: c.pool.Crowded(ids)})
	}
	return len(ids) > 0
}

// handing reports whether a quick reading is in progress. A reading of all GPUs takes
// longer and waits for it.
func (r *reads) handing() bool {
	for i := range r.hands {
		if r.hands[i].out {
			return true
		}
	}
	return false
}

func (r *reads) waits(now time.Duration) bool { return r.out && now-r.asked <= readingLost }

// standing returns the GPUs that started attempts of this run hold.
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
