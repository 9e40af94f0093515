package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A background run uses only devices that no foreground run wants, and releases them on demand. All
// runs use the same data to compute which background job must stop: the most recently started one
// whose devices would help the first foreground wish that free devices cannot satisfy. Until that
// job has ended and the waiting run has had takeWithin to take its devices, or stopWithin has passed,
// no other job has to stop.

// stopWithin is how long a job may take to stop. After that, the next job must stop too, since the
// first job's run may be hanging.
const stopWithin = time.Minute

// takeWithin is how long the next job keeps running after one has stopped. When the waiting run takes
// the devices, the offer to it disappears, and a reading of the claims at that moment may show neither.
const takeWithin = time.Second

// preemption tracks the background jobs that must stop.
type preemption struct {
	last  string        // the attempt that must stop
	since time.Duration // from when on it must stop
	hung  []string      // attempts that did not stop in time
}

// ForegroundWaits reports whether any other run waits for devices in the foreground.
func (t *Turns) ForegroundWaits() bool {
	return slices.ContainsFunc(t.others, func(w Wish) bool { return !w.Background })
}

// NextPreempted returns the attempt of the background job that must stop now, and the reason. Both
// are "" if no job must stop. The job may be another run's. next is when the mere passage of time
// may change the result; 0 for never.
func (t *Turns) NextPreempted(now time.Duration) (attempt, why string, next time.Duration) {
	r := t.newRound(now)
	r.deal()
	by := func(at time.Duration) {
		if now < at && (next == 0 || at < next) {
			next = at
		}
	}
	for i := range t.others {
		if w := &t.others[i]; !w.Background {
			by(w.seen + t.Courtesy())
		}
	}
	for _, o := range t.skipped {
		by(o.until)
	}
	w, _, attempt := r.call()
	if w == nil {
		t.giving = preemption{hung: t.unstopped()}
		return "", "", next
	}
	if t.giving.last != attempt {
		if t.giving.since = now; t.giving.last != "" {
			t.giving.since += takeWithin
		}
		t.giving.last = attempt
	}
	if now < t.giving.since {
		by(t.giving.since)
		return "", "", next
	}
	if now >= t.giving.since+stopWithin {
		t.giving.hung = append(t.giving.hung, attempt)
		return t.NextPreempted(now)
	}
	by(t.giving.since + stopWithin)
	return attempt, fmt.Sprintf("yields to %s, who has been waiting since %s", userName(w.User, w.UID), w.Since.Local().Format("15:04")), next
}

// unstopped returns the attempts that did not stop in time and are still running.
func (t *Turns) unstopped() []string {
	return slices.DeleteFunc(t.giving.hung, func(attempt string) bool {
		return !slices.ContainsFunc(t.pool.devs, func(d *device) bool {
			return d.hold(attempt) != nil || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Attempt == attempt })
		})
	})
}

// call returns the first foreground wish, if any, that has lasted long enough and can be satisfied
// only by stopping background jobs; the devices it would then get; and the attempt on these devices
// that must stop.
func (r *round) call() (*Wish, []*device, string) {
	for _, w := range r.order(nil) {
		if w.Background || w == &r.t.own || r.now < w.seen+r.t.Courtesy() || r.t.hasClaimed(w) {
			continue
		}
		for i := range w.Requests {
			a := &w.Requests[i]
			devs, limited := r.withoutBackground(w, a), r.limited(w, a)
			if a.Jobs <= 0 || !limited && (a.Room < a.Min || r.wants[w] <= 0) || len(devs) < a.Min {
				continue
			}
			if limited {
				devs = slices.DeleteFunc(devs, func(d *device) bool { return !r.p.userHolds(d) })
			}
			if attempt := r.lastStarted(devs); attempt != "" {
				return w, devs, attempt
			}
		}
	}
	return nil, nil, ""
}

// limited reports whether the host owner's limit keeps another run of this user from starting a job
// that it could start if one of the user's background jobs stopped.
func (r *round) limited(w *Wish, a *WishRequest) bool {
	return w.UID == r.p.rules.UID && a.Most >= a.Min && a.Min > 0 && a.Room == a.Min-1
}

// hasClaimed reports whether a run has claimed a device since it published its wish. Until that run
// publishes a new wish, no job has to stop for it.
func (t *Turns) hasClaimed(w *Wish) bool {
	return len(t.pool.claimedBy(func(c *Claim) bool { return c.Run == w.Run && c.UID == w.UID && c.Since.After(w.Since) })) > 0
}

// withoutBackground returns the devices that would suit a request if there were no background jobs.
func (r *round) withoutBackground(w *Wish, a *WishRequest) []*device {
	return r.p.filter(func(d *device) bool {
		o, bare := r.dealt[d.position], d.without(inBackground, r.p.rules.Background)
		return (o == nil || o == w || o.Background) && r.p.closed(r.now, d) == "" && a.fits(&bare, w.UID, w.Run)
	})
}

// lastStarted returns the most recently started background attempt on some devices; "" if there is
// none. It leaves out attempts that did not stop in time.
func (r *round) lastStarted(devs []*device) (last string) {
	var since time.Time
	consider := func(attempt string, at time.Time) {
		later := last == "" || cmp.Or(at.Compare(since), cmp.Compare(attempt, last)) > 0
		if later && !slices.Contains(r.t.giving.hung, attempt) {
			last, since = attempt, at
		}
	}
	for _, d := range devs {
		for _, h := range d.holds {
			if r.p.rules.Background {
				consider(h.attempt, h.Since)
			}
		}
		for i := range d.claims {
			if c := &d.claims[i]; inBackground(c) {
				consider(c.Attempt, c.Since)
			}
		}
	}
	return last
}

func inBackground(c *Claim) bool { return c.Background && c.To == "" }

// without returns the state that a device would have without the jobs of the claims for which some
// returns true and, if own is set, without this run's jobs.
func (d *device) without(some func(c *Claim) bool, own bool) device {
	v := *d
	v.claims = slices.DeleteFunc(slices.Clone(d.claims), func(c Claim) bool { return some(&c) })
	if own {
		v.holds = nil
	}
	if len(v.claims) == len(d.claims) && len(v.holds) == len(d.holds) {
		return v
	}
	gone := func(pr Process) bool {
		theirs := pr.Attempt == "" && slices.ContainsFunc(d.claims, func(c Claim) bool { return some(&c) && c.UID == pr.UID })
		return theirs || own && d.hold(pr.Attempt) != nil
	}
	v.procs = slices.DeleteFunc(slices.Clone(d.procs), gone)
	v.memoryTally, v.back = memoryTally{hidden: d.hidden}, false
	if v.free = d.bare; v.free == 0 {
		v.free = MostOf(d.Total)
	}
	v.free -= d.hidden
	for i := range v.procs {
		v.free -= max(0, v.procs[i].Memory)
	}
	return v
}

// reservedForWish returns the empty devices that a background run must leave to a foreground wish.
// Jobs were stopped for this wish, but the run that published it cannot start its job yet.
func (t *Turns) reservedForWish(now time.Duration) []*device {
	if !t.pool.rules.Background || !t.ForegroundWaits() {
		return nil
	}
	r := t.newRound(now)
	r.deal()
	_, devs, _ := r.call()
	return slices.DeleteFunc(devs, func(d *device) bool { return len(d.holds) > 0 })
}

// Closed returns why the host's hours currently keep jobs from starting on one of these devices; ""
// if they do not.
func (p *Pool) Closed(now time.Duration, ids []UUID) string {
	for _, d := range p.byUUID(ids) {
		if why := p.closed(now, d); why != "" {
			return "GPU " + d.label() + ": " + why
		}
	}
	return ""
}

// A ReleasableDevice is a device that an attempt could release for a waiting run.
type ReleasableDevice struct {
	UUID UUID
	Turn Turn
}

// Busy returns the average utilization of some devices, in percent, since a time within the last
// minute. known is false unless all of them have been watched without a gap since then.
func (p *Pool) Busy(now, since time.Duration, ids []UUID) (percent int, known bool) {
	sum, n := 0, 0
	for _, d := range p.byUUID(ids) {
		last, any := d.last()
		if !any || now-last > p.gap() || d.since > since {
			return 0, false
		}
		for _, s := range d.samples {
			if s.At > since && s.At <= now {
				sum += s.Percent
				n++
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / n, true
}

// Wanted reports whether another waiting run could use a device.
func (t *Turns) Wanted(id UUID) bool {
	return slices.ContainsFunc(t.others, func(w Wish) bool {
		return slices.ContainsFunc(w.Requests, func(a WishRequest) bool { return a.Room > 0 && slices.Contains(a.UUIDs, id) })
	})
}

// Releasable returns the devices that an attempt of this run could release for a waiting run that
// is ahead in line and cannot be satisfied by free devices. The attempt keeps the minimum of its
// request, and releases nothing unless it could take all its devices again. An idle attempt
// releases devices for any waiting run, and for jobs of its own run. Nothing is released for recent
// wishes, or for users for whom except returns true.
func (t *Turns) Releasable(now time.Duration, attempt string, req Request, idle bool, except func(uid int) bool) []ReleasableDevice {
	c := t.pool.clone()
	turns := &c.Turns
	turns.others = slices.DeleteFunc(turns.others, func(w Wish) bool { return now < w.seen+t.Courtesy() || except(w.UID) })
	as, r := turns.newRound(now), turns.newRound(now)
	r.deal() // deal the free devices first
	mine, least := c.heldBy(attempt), max(1, req.Min)
	some := slices.DeleteFunc(slices.Clone(mine), func(d *device) bool { return !r.wanted(d) })
	some = some[max(0, len(some)-max(0, len(mine)-least)):] // the last ones, as many as leave the attempt its minimum
	if len(some) == 0 || !t.pool.FitsAfterRelease(now, attempt, req) {
		return nil
	}
	for _, d := range some {
		d.leave(now, attempt, c.rules.UID)
		d.count(c.rules.UID)
		r.of(c.rules.UID).parts[d.position] = 0
	}
	if !idle {
		one := req
		one.Min, one.Max = 1, 1
		r.want(&turns.own, WishRequest{Jobs: len(some), Min: 1, Room: len(some), UUIDs: uuids(some), req: &one})
	}
	r.deal()
	var gifts []ReleasableDevice
	for _, d := range some {
		if w := r.dealt[d.position]; w != nil && (idle || w != &turns.own) {
			gifts = append(gifts, ReleasableDevice{d.UUID, as.turn(w, nil)})
		}
	}
	return gifts
}

// clone returns a copy of the pool, on which releases can be simulated.
func (p *Pool) clone() *Pool {
	c := *p
	t := &c.Turns
	c.devs, t.pool, t.others, t.own.Requests = slices.Clone(p.devs), &c, slices.Clone(t.others), slices.Clone(t.own.Requests)
	for i, d := range c.devs {
		v := *d
		v.holds, v.procs, v.claims, v.gathers = slices.Clone(d.holds), slices.Clone(d.procs), slices.Clone(d.claims), slices.Clone(d.gathers)
		c.devs[i] = &v
	}
	return &c
}

// leave is like release, but without a hand-over, and as if the device's memory had been read since
// then.
func (d *device) leave(now time.Duration, attempt string, uid int) {
	d.release(now, attempt, uid)
	d.unyielded, d.awaited = false, false
}

// FitsAfterRelease reports whether an attempt could take its devices again if it released them now.
func (p *Pool) FitsAfterRelease(now time.Duration, attempt string, req Request) bool {
	c := p.clone()
	mine := c.heldBy(attempt)
	for _, d := range mine {
		d.leave(now, attempt, c.rules.UID)
		d.count(c.rules.UID)
	}
	q := c.query(now, &req)
	return !slices.ContainsFunc(mine, func(d *device) bool {
		why := q.refusal(rules, d)
		return why != nil && (why.ours == nil || !why.ours(&q, d))
	})
}

func (p *Pool) heldBy(attempt string) []*device {
	return p.filter(func(d *device) bool { return d.hold(attempt) != nil })
}

func (r *round) wanted(d *device) bool {
	return slices.ContainsFunc(r.wishes, func(w *Wish) bool {
		return slices.ContainsFunc(w.Requests, func(a WishRequest) bool { return slices.Contains(a.UUIDs, d.UUID) })
	})
}

func (r *round) want(w *Wish, a WishRequest) {
	w.Requests = append(w.Requests, a)
	if !slices.Contains(r.wishes, w) {
		r.wishes = append(r.wishes, w)
	}
	r.wants[w] += a.Jobs
}
