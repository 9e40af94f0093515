package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
)

// The GPU memory that this run's jobs use is sampled often enough to base advice on:
// free memory once a second, which costs microseconds, and the process list every few
// seconds, which costs milliseconds and holds the driver's lock. When free memory drops
// below that of every list so far, a new list is read at once, to tell a job's own
// short peak from a neighbor's.
const (
	watchFirst = 500 * time.Millisecond // after a start, so that short jobs are sampled too
	watchEvery = time.Second
	listEvery  = 5 * time.Second
	watchStep  = 128 * gpu.MiB // a drop in free memory that triggers a list
)

type watch struct {
	next time.Duration // when the GPUs in use may be read again
	list time.Duration // when to read them with their processes
	at   time.Duration // when a reading was last requested
	out  bool          // requested and not yet answered
	now  []gpu.UUID    // GPUs whose list is wanted at once
}

// begun schedules an early reading of a new job's GPUs.
func (w *watch) begun(now time.Duration) {
	if w.next <= now || w.next > now+watchFirst {
		w.next = now + watchFirst
	}
}

// listed notes that a reading with processes was requested.
func (w *watch) listed(now time.Duration) {
	w.at, w.next, w.list = now, now+watchEvery, now+listEvery
}

func (w *watch) waits(now time.Duration) bool { return w.out && now-w.at <= readingLost }

// readWatched requests the readings that are due of GPUs in use.
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

// watchDue returns when readWatched next has something to do by time alone; 0 for never.
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

// A seat is the memory use of an attempt on one of its GPUs.
type seat struct {
	used gpu.Bytes // as last seen; -1 if unknown
	low  gpu.Bytes // least free memory of all lists; -1 before the first
}

// see records how much of their GPUs the live attempts use.
func (c *Core) see(ev Observed) {
	c.reads.watch.out = false
	if ev.Err != "" {
		return
	}
	for a := c.live.first; a != nil; a = a.next {
		if a.uniID == "" {
			continue
		}
		seen := false
		for i, id := range a.grant.UUIDs {
			if r := reading(ev.Observation, id); r != nil && r.Err == "" {
				seen = c.seat(a, i, r) || seen
			}
		}
		if seen {
			a.readings++
		}
	}
	c.strays(ev.Observation)
	c.guests(ev.Observation)
}

// seat records how much an attempt uses of its i-th GPU, and reports whether the
// reading counts: it is a list with the attempt's processes, or a quick reading with
// no less free memory than such a list.
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

// used returns the memory an attempt uses on all its GPUs, as last seen; -1 if unknown.
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
