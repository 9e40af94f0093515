package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// When GPUs are read: all of them every poll while a ready job waits for one;
// those that jobs of this run stand on now and then, for the view and the peak;
// one that such a job has just left quickly and again and again, until the next
// job is on it.
const (
	handOverFirst = 5 * time.Millisecond  // doubled each time,
	handOverFine  = 20 * time.Millisecond // and no longer than this, or an eighth of the time since the job's end
	handOverFor   = 30 * time.Second
	viewEvery     = 10 * time.Second // or every poll, whichever is longer
	readingLost   = 2 * time.Minute  // an answer that has not come by then never will
	longestPause  = time.Minute      // between readings that fail; or a poll
)

type reads struct {
	next      time.Duration // when all may be read again
	asked     time.Duration // when that was last asked for
	out       bool          // and not yet answered
	answered  time.Duration // when all were last read with success
	tried     time.Duration // when such a reading last came back, with success or without
	ever      bool          // some reading of all has come back
	failures  int           // in a row
	err       string        // of the last one
	viewAsked time.Duration
	viewOut   bool
	hands     []handOver
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

// observe takes over a reading.
func (c *Core) observe(ev Snapshot) {
	if c.pool == nil {
		return
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
	c.see(ev.Snap)
	if ev.Quick {
		return
	}
	r.viewOut = false
	if ev.Snap.Err == "" && len(ev.Snap.Readings) < len(c.pool.Devices()) {
		return
	}
	r.out, r.ever, r.tried, r.err = false, true, c.now.Boot, ev.Snap.Err
	if ev.Snap.Err == "" {
		r.answered, r.failures = c.now.Boot, 0
		return
	}
	r.failures++
	r.next = max(r.next, r.asked+c.pollPause())
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

// see notes what the live attempts use of their GPUs.
func (c *Core) see(s gpu.Snapshot) {
	if s.Err != "" {
		return
	}
	for a := c.live.first; a != nil; a = a.next {
		if len(a.grant.UUIDs) == 0 || a.uniID == "" {
			continue
		}
		if all, most, ok := uses(s, a); ok {
			a.used, a.peak = all, max(a.peak, most)
		}
	}
}

// uses adds up what an attempt's processes use; false when the reading does not
// cover all of its GPUs.
func uses(s gpu.Snapshot, a *attempt) (all, most gpu.Bytes, ok bool) {
	for _, id := range a.grant.UUIDs {
		r := reading(s, id)
		if r == nil || !r.Listed || r.Err != "" {
			return 0, 0, false
		}
		here := gpu.Bytes(0)
		for _, p := range r.Processes {
			if p.Attempt != a.uniID {
				continue
			}
			if p.Memory < 0 {
				return 0, 0, false
			}
			here += p.Memory
		}
		all += here
		most = max(most, here)
	}
	return all, most, true
}

// read asks for the readings that are due.
func (c *Core) read() {
	if c.pool == nil || c.draining != "" && c.onGPUs == 0 {
		return
	}
	r := &c.reads
	now := c.now.Boot
	if c.waiter.id >= 0 && !c.readFreed() && !r.handing() && now >= r.next && !r.waits(now) {
		r.asked, r.out, r.next = now, true, now+c.pollPause()
		r.viewAsked = now
		c.do(Read{})
	}
	if c.onGPUs > 0 && now >= c.viewDue() && (!r.viewOut || now-r.viewAsked > readingLost) {
		if ids := c.standing(); len(ids) > 0 {
			r.viewAsked, r.viewOut = now, true
			c.do(Read{UUIDs: ids, Processes: true})
		}
	}
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

func (c *Core) viewDue() time.Duration {
	return max(c.reads.viewAsked, 0) + max(c.b.Settings.Poll, viewEvery)
}

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
