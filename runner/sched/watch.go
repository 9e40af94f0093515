package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// What the jobs of this run take of their GPUs is watched densely enough to be worth
// an advice: the free memory of these GPUs once a second, which costs microseconds,
// and who has it every few seconds, which costs milliseconds and holds the driver's
// lock. Less free memory than at any list before is a reason for a list at once, so
// that a short peak is told from a neighbour's.
const (
	watchFirst = 500 * time.Millisecond // after a start, for the sake of short jobs
	watchEvery = time.Second
	listEvery  = 5 * time.Second
	watchStep  = 128 * gpu.MiB // so much less free memory asks for a list
)

type watch struct {
	next time.Duration // when the GPUs in use may be read again
	list time.Duration // when with their processes
	at   time.Duration // when that was last asked for
	out  bool          // and not yet answered
	now  []gpu.UUID    // of which a list is wanted at once
}

// begun has a new job's GPUs read soon.
func (w *watch) begun(now time.Duration) {
	if w.next <= now || w.next > now+watchFirst {
		w.next = now + watchFirst
	}
}

// listed says that a reading with processes has been asked for.
func (w *watch) listed(now time.Duration) {
	w.at, w.next, w.list = now, now+watchEvery, now+listEvery
}

func (w *watch) waits(now time.Duration) bool { return w.out && now-w.at <= readingLost }

// readWatched asks for the readings of GPUs in use that are due.
func (c *Core) readWatched() {
	w := &c.reads.watch
	now := c.now.Boot
	if len(w.now) > 0 {
		c.do(Read{UUIDs: w.now, Processes: true})
		w.now = nil
	}
	if c.onGPUs == 0 || now < w.next || w.waits(now) {
		return
	}
	ids := c.standing()
	if len(ids) == 0 {
		return
	}
	list := now >= w.list
	if w.at, w.next, w.out = now, now+watchEvery, true; list {
		w.list = now + listEvery
	}
	c.do(Read{UUIDs: ids, Processes: list})
}

// watchDue is when readWatched has something to do by time alone; 0 for never.
func (c *Core) watchDue() time.Duration {
	w := &c.reads.watch
	switch {
	case c.onGPUs == 0:
		return 0
	case w.out:
		return w.at + readingLost + 1
	}
	return w.next
}

// A seat is what is known of an attempt on one of its GPUs.
type seat struct {
	used gpu.Bytes // when last seen; -1 unknown
	low  gpu.Bytes // least free memory at a list; -1 before the first
}

// see notes what the live attempts use of their GPUs.
func (c *Core) see(ev Snapshot) {
	c.reads.watch.out = false
	if ev.Snap.Err != "" {
		return
	}
	for a := c.live.first; a != nil; a = a.next {
		if a.uniID == "" {
			continue
		}
		seen := false
		for i, id := range a.grant.UUIDs {
			if r := reading(ev.Snap, id); r != nil && r.Err == "" {
				seen = c.seat(a, i, r) || seen
			}
		}
		if seen {
			a.readings++
		}
	}
	c.strays(ev.Snap)
	c.guests(ev.Snap)
}

// seat notes what an attempt uses of its i-th GPU, and reports whether the reading
// tells: a list with its processes, or no less free memory than with them.
func (c *Core) seat(a *attempt, i int, r *gpu.Reading) bool {
	for len(a.seats) < len(a.grant.UUIDs) {
		a.seats = append(a.seats, seat{used: -1, low: -1})
	}
	s := &a.seats[i]
	if !r.Listed {
		if r.Free >= 0 && (s.low < 0 || r.Free+watchStep <= s.low) {
			if !slices.Contains(c.reads.watch.now, r.UUID) {
				c.reads.watch.now = append(c.reads.watch.now, r.UUID)
			}
			return false
		}
		return s.used > 0
	}
	if r.Free >= 0 && (s.low < 0 || r.Free < s.low) {
		s.low = r.Free
	}
	s.used = 0
	for _, p := range r.Processes {
		switch {
		case p.Attempt != a.uniID:
		case p.Memory < 0 || s.used < 0:
			s.used = -1
		default:
			s.used += p.Memory
		}
	}
	a.peak = max(a.peak, s.used)
	c.pidsTell = c.pidsTell || s.used > 0
	return s.used > 0
}

// used is what an attempt has on all its GPUs, when last seen; -1 unknown.
func (a *attempt) used() gpu.Bytes {
	if len(a.seats) == 0 {
		return -1
	}
	all := gpu.Bytes(0)
	for _, s := range a.seats {
		if s.used < 0 {
			return -1
		}
		all += s.used
	}
	return all
}
