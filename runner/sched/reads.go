package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// When GPUs are read: all of them at every poll while a ready job waits for one, and
// to find strays; those with jobs of this run often enough to base advice on, which is
// free memory once a second, which costs microseconds, and the process list every few
// seconds, which costs milliseconds and holds the driver's lock; and one that such a job
// just left in quick succession until the next job is on it (handover.go).
const (
	readingLost  = 2 * time.Minute        // after this long, no answer is coming
	shortPause   = 50 * time.Millisecond  // the shortest poll
	longestPause = time.Minute            // between failing readings, or a poll if that is longer
	usedFirst    = 500 * time.Millisecond // after a start, so that short jobs are sampled too
	usedEvery    = time.Second
	listEvery    = stall.Listing
	listStep     = 128 * gpu.MiB // a drop in free memory that triggers a list
)

// reads are the readings of all GPUs, and of those in use.
type reads struct {
	all      request
	next     time.Duration // when all may be read again
	answered time.Duration // when all were last read successfully
	tried    time.Duration // when such a reading last came back, successful or not
	ever     bool          // some reading of all GPUs has come back
	failures int           // in a row
	err      string        // the latest failure

	used     request
	usedNext time.Duration // when the GPUs in use may be read again
	list     time.Duration // when to read them with their processes
	now      []gpu.UUID    // GPUs whose list is wanted at once
	again    time.Duration // when such a list may be wanted again because an old one would let a job start
}

// A request is a reading that may be on its way.
type request struct {
	at  time.Duration // when it was last requested
	out bool          // and not yet answered
}

func (r *request) waits(now time.Duration) bool { return r.out && now-r.at <= readingLost }

// begun schedules an early reading of a new job's GPUs.
func (r *reads) begun(now time.Duration) {
	if r.usedNext <= now || r.usedNext > now+usedFirst {
		r.usedNext = now + usedFirst
	}
}

// on processes a reading. From a quick one the pool learns only about GPUs in
// hand-over and GPUs that do not answer: on a GPU in use, nobody can tell whose the
// memory is without a process list.
func (ev Observed) on(c *Core) {
	if c.pool == nil {
		return
	}
	c.see(ev.Observation)
	c.vitals(ev.Observation, ev.Quick)
	c.health.unpublished(&ev.Observation)
	quick := ev.Quick && ev.Err == ""
	if quick {
		ev.Readings = slices.DeleteFunc(slices.Clone(ev.Readings), func(r gpu.Reading) bool { return r.Err == "" && !c.inHand(r.UUID) })
		if len(ev.Readings) == 0 {
			return
		}
	}
	c.pool.Observe(ev.Observation)
	if ev.Claims != nil {
		c.heard = ev.Claims
	}
	c.refill = true
	c.welcome()
	c.handsRead(ev.Observation, quick)
	if r := &c.reads; !ev.Quick && (ev.Err != "" || len(ev.Readings) >= len(c.pool.Devices())) {
		r.all.out, r.ever, r.tried, r.err = false, true, c.now.Boot, ev.Err
		if ev.Err == "" {
			r.answered, r.failures = c.now.Boot, 0
			c.live.strayLooked(c.now.Boot)
			return
		}
		r.failures++
		r.next = max(r.next, r.all.at+c.pollPause())
	}
}

// pollPause returns the time between readings of all GPUs. It grows while they fail.
func (c *Core) pollPause() time.Duration {
	poll := max(c.b.Settings.Poll, shortPause)
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

// read requests the readings that are due. One of all GPUs takes longer, and waits for a
// quick one in progress.
func (c *Core) read() {
	if c.pool == nil || c.sealed() && len(c.live.all) == 0 {
		return
	}
	r, now := &c.reads, c.now.Boot
	stray := c.live.strayDue()
	hands := (c.waiter.id >= 0 || len(c.moves) > 0) && c.readHands()
	want := (c.waiter.id >= 0 || c.growing || c.attends()) && !hands || stray > 0 && now >= stray
	if want && now >= r.next && !r.all.waits(now) {
		r.all, r.next = request{now, true}, now+c.pollPause()
		r.used.at, r.usedNext, r.list = now, now+usedEvery, now+listEvery
		c.do(Read{})
	}
	if len(r.now) > 0 {
		c.do(Read{UUIDs: r.now, Processes: true})
		r.now = nil
	}
	if c.live.onGPUs == 0 || now < r.usedNext || r.used.waits(now) {
		return
	}
	ids := c.live.inUse()
	if len(ids) == 0 {
		return
	}
	list := now >= r.list
	if r.used, r.usedNext = (request{now, true}), now+usedEvery; list {
		r.list = now + listEvery
	}
	c.do(Read{UUIDs: ids, Processes: list})
}

// nextRead calls by with the times at which read has something to do.
func (c *Core) nextRead(by func(time.Duration)) {
	r := &c.reads
	if c.pool != nil && c.live.onGPUs > 0 {
		if r.used.out {
			by(r.used.at + readingLost + 1)
		} else {
			by(r.usedNext)
		}
	}
	if stray := c.live.strayDue(); stray > 0 {
		by(max(stray, r.next))
	}
	if r.all.out {
		by(r.all.at + readingLost + 1)
	}
	if c.waiter.id >= 0 || c.growing || c.attends() {
		by(r.next)
	} else if c.pool != nil && c.tellsFree() {
		by(r.all.at + attendEvery)
	}
	c.nextHand(by)
}

// inUse returns the GPUs that started attempts of this run hold.
func (l *attempts) inUse() (ids []gpu.UUID) {
	for a := range l.started {
		for _, id := range a.grant.UUIDs {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// usage is what readings have shown of an attempt.
type usage struct {
	seats    []seat        // parallel to the grant's GPUs; nil before the first reading
	peak     gpu.Bytes     // the most on one GPU
	readings int           // readings that showed what it uses
	hogs     bool          // it took nearly all of a GPU that nobody else was on
	lookAt   time.Duration // when to look for it on other GPUs next; 0 for never
	looks    int           // number of such looks so far
	strayed  []gpu.UUID    // other GPUs on which it was seen
	stray    string        // the message about that
	came     []newcomer    // other processes that came to its GPUs while it ran
	company  []company     // parallel to the grant's GPUs: who else has been there
	fault    fault         // whose it was that it ran out of memory
}

// A seat is the memory use of an attempt on one of its GPUs.
type seat struct {
	used gpu.Bytes // as last seen; -1 if unknown
	peak gpu.Bytes // the most that was seen
	low  gpu.Bytes // least free memory of all lists; -1 before the first
}

// see records how much of their GPUs the live attempts use, and who else is there.
func (c *Core) see(seen gpu.Observation) {
	c.reads.used.out = false
	if seen.Err != "" {
		return
	}
	for a := range c.live.started {
		counts := false
		for i, id := range a.grant.UUIDs {
			if r := reading(seen, id); r != nil && r.Err == "" {
				counts = c.seat(a, i, r) || counts
				a.watch.Lit(r, c.now.Boot)
			}
		}
		if counts {
			a.readings++
		}
	}
	listed := slices.DeleteFunc(slices.Clone(seen.Readings), func(r gpu.Reading) bool { return !r.Listed || r.Err != "" })
	allowed := func(job int32) bool { return slices.Contains(c.spec(job).Allow, AllowStray) }
	for i := range listed {
		for _, s := range c.sharing.strays(&listed[i], &c.live, c.pool, allowed) {
			if c.do(Warn{Text: s.warning}); s.end {
				c.endAttempt(s.attempt, state.WhyStray, false)
			}
		}
	}
	for i := range listed {
		for _, warning := range c.sharing.newcomers(&listed[i], &c.live, c.pool) {
			c.do(Warn{Text: warning})
		}
	}
}

// seat records how much an attempt uses of its i-th GPU, and reports whether the
// reading counts: it is a list with the attempt's processes, or a quick reading with
// no less free memory than such a list. When free memory drops below that of every list
// so far, a new list is read at once, to tell a job's own short peak from a neighbor's.
func (c *Core) seat(a *attempt, i int, r *gpu.Reading) bool {
	for len(a.seats) < len(a.grant.UUIDs) {
		a.seats = append(a.seats, seat{used: -1, low: -1})
	}
	s, now := &a.seats[i], &c.reads.now
	if !r.Listed {
		drop := r.Free >= 0 && (s.low < 0 || r.Free+listStep <= s.low)
		if drop && !slices.Contains(*now, r.UUID) {
			*now = append(*now, r.UUID)
		}
		return !drop && s.used > 0
	}
	if r.Free >= 0 && (s.low < 0 || r.Free < s.low) {
		s.low = r.Free
	}
	s.used = 0
	alone := true
	for _, p := range r.Processes {
		switch {
		case p.Attempt != a.uniID:
			alone = false
		case p.Memory < 0 || s.used < 0:
			s.used = -1
		default:
			s.used += p.Memory
		}
	}
	s.peak = max(s.peak, s.used)
	a.peak = max(a.peak, s.used)
	if i < len(a.company) {
		a.company[i].see(r, a.uniID, s.used)
	}
	a.hogs = a.hogs || alone && r.Total > 0 && s.used > r.Total/100*hogShare
	c.sharing.pidsTell = c.sharing.pidsTell || s.used > 0
	return s.used > 0
}

// metered takes over what the engine has read of GPUs that it chose.
func (a *attempt) metered(e Ended) {
	if len(e.Peaks) == 0 {
		return
	}
	a.seats, a.readings = nil, e.Readings
	for _, p := range e.Peaks {
		a.seats = append(a.seats, seat{used: -1, low: -1, peak: p.Used})
		a.peak = max(a.peak, p.Used)
		a.hogs = a.hogs || p.Total > 0 && p.Used > p.Total/100*hogShare
	}
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

// gauges say when to look at what attempts have done: those whose job asks whether it stalls.
type gauges struct {
	next time.Duration // 0 while none of them runs
	out  request
}

// stallOf returns what a running attempt's job says about stalls, and how often to look.
func (c *Core) stallOf(a *attempt) (s jobspec.Stall, every time.Duration) {
	if a.job >= 0 && a.uniID != "" && !a.asked && !a.queued && !a.suspended && a.stop == "" {
		s = c.spec(a.job).Stall
	}
	return s, stall.Pace(s)
}

// gauge asks how much the attempts have done, if it is time.
func (c *Core) gauge() {
	g, now := &c.gauges, c.now.Boot
	var ids []string
	pause := time.Duration(0)
	for _, a := range c.live.all {
		if _, every := c.stallOf(a); every > 0 {
			ids = append(ids, a.uniID)
			if pause == 0 || every < pause {
				pause = every
			}
		}
	}
	switch {
	case len(ids) == 0:
		g.next = 0
	case g.next == 0 || g.next > now+pause:
		g.next = now + pause
	case now >= g.next && !g.out.waits(now):
		g.out, g.next = request{now, true}, now+pause
		c.do(Gauge{UniIDs: ids})
	}
}

// nextGauge calls by with the time at which gauge has something to do.
func (c *Core) nextGauge(by func(time.Duration)) {
	if g := &c.gauges; g.next > 0 && g.out.out {
		by(g.out.at + readingLost + 1)
	} else if g.next > 0 {
		by(g.next)
	}
}

// on records which attempts have stalled, once until they go on, and ends them if their jobs
// say so.
func (ev Gauged) on(c *Core) {
	c.gauges.out.out = false
	for _, did := range ev.Work {
		a := c.live.byID[did.UniID]
		if a == nil {
			continue
		}
		s, every := c.stallOf(a)
		said := a.watch.Told()
		if every == 0 || a.watch.Look(s, did, len(a.grant.UUIDs) > 0, c.now.Boot) == "" || said != "" {
			continue
		}
		f := a.fact(state.KindStalled, c.now)
		f.Reason = a.watch.Told()
		c.record(a.file, a.job, f)
		if s.Kill {
			c.endAttempt(a, state.WhyStalled, false)
		}
	}
}
