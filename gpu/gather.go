package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A job that needs several devices, or a whole device that other jobs share, rarely finds all that
// it needs free at the same time. So once the host's patience has run out, the first run in line
// gathers devices as they become free: it announces this in its wish and makes gathering claims
// until it has enough devices. Other runs offer it devices one by one. They start jobs on gathered
// devices only if these jobs will end before the last device is expected to become free.

// A gatherTerm limits how long this run, or another user, gathers.
type gatherTerm struct {
	uid   int
	began time.Duration
	until time.Duration // gathering stops then; it may resume after a pause of the same length
	full  time.Duration // since when the run has been able to start its job; 0 if it cannot
	short time.Duration // since when too few devices have been suitable; 0 if enough are
	had   []UUID        // devices that the user has held since before the term
}

func (t *gatherTerm) lasts(now time.Duration) bool  { return now < t.until }
func (t *gatherTerm) pauses(now time.Duration) bool { return t.until <= now && now < t.again() }
func (t *gatherTerm) again() time.Duration          { return 2*t.until - t.began }

// enough records whether enough devices suit the gathering run now, as given by would. It reports
// whether enough do, or did within the duration moment. This bridges the time between a job's end
// and the next reading, when the job's memory looks like a stranger's.
func (t *gatherTerm) enough(now, moment time.Duration, would bool) bool {
	switch {
	case would:
		t.short = 0
	case t.short == 0:
		t.short = now
	}
	return t.short == 0 || now < t.short+moment
}

func (t *Turns) observe(now time.Duration, claims []Claim) {
	t.gather(now, claims)
	t.claimed = t.pool.hostHoldings(claims)
	t.endSkips()
}

// gather records which gathering claims of other runs count.
func (t *Turns) gather(now time.Duration, claims []Claim) {
	t.terms = slices.DeleteFunc(t.terms, func(o *gatherTerm) bool {
		return t.tookDevice(o.uid, &o.had) || now >= o.again()
	})
	for i := range t.others {
		w := &t.others[i]
		if !w.Gathers {
			continue
		}
		if t.termOf(w.UID) == nil {
			held := t.pool.claimedBy(func(c *Claim) bool { return c.UID == w.UID })
			t.terms = append(t.terms, &gatherTerm{uid: w.UID, began: now, until: now + max(t.pool.rules.Host.Gather, now-w.seen), had: held, short: now - t.Courtesy()})
		}
		t.termOf(w.UID).enough(now, t.Courtesy(), t.suits(now, w, &w.Requests[0]))
	}
	for _, d := range t.pool.devs {
		d.gathers = nil
	}
	for i := range t.others {
		w := &t.others[i]
		if !t.gathers(now, w) {
			continue
		}
		for _, c := range claims {
			if d := t.pool.device(c.UUID); d != nil && c.Gathering && c.Run == w.Run && c.UID == w.UID {
				d.gathers = append(d.gathers, c)
			}
		}
	}
	for _, its := range t.terms {
		t.overfull(now, its)
	}
}

// gathers reports whether the run of a wish is gathering and is allowed to.
func (t *Turns) gathers(now time.Duration, w *Wish) bool {
	if w == &t.own || !w.Gathers {
		return w.Gathers
	}
	its := t.termOf(w.UID)
	return its != nil && its.lasts(now) && !t.isSkipped(now, w.UID) && (its.short == 0 || now < its.short+t.Courtesy())
}

// suits reports whether free devices, together with those held through gpurun, would satisfy a
// request.
func (t *Turns) suits(now time.Duration, w *Wish, a *WishRequest) bool {
	return a.Min > 0 && a.Room >= a.Min && len(t.pool.reach(now, w, a)) >= a.Min
}

// reach returns the devices that would suit a request now if gpurun ran no jobs.
func (p *Pool) reach(now time.Duration, w *Wish, a *WishRequest) []*device {
	return p.filter(func(d *device) bool {
		bare := d.without(func(*Claim) bool { return true }, true)
		return p.closed(now, d) == "" && a.fits(&bare, w.UID, w.Run)
	})
}

// overfull skips a user whose run has gathered enough devices but does not start its job.
func (t *Turns) overfull(now time.Duration, its *gatherTerm) {
	k := slices.IndexFunc(t.others, func(w Wish) bool {
		return w.UID == its.uid && w.Gathers && w.Requests[0].Min <= t.pool.count(func(d *device) bool {
			return d.gatheredBy(w.Run) && w.Requests[0].fits(d, w.UID, w.Run)
		})
	})
	switch {
	case k < 0:
		its.full = 0
	case its.full == 0:
		its.full = now
	case now >= its.full+t.Courtesy():
		its.full = 0
		t.Skip(now, Turn{Run: t.others[k].Run, UID: its.uid})
		for _, d := range t.pool.devs {
			d.gathers = slices.DeleteFunc(d.gathers, func(c Claim) bool { return c.UID == its.uid })
		}
	}
}

func (t *Turns) termOf(uid int) *gatherTerm {
	if i := slices.IndexFunc(t.terms, func(o *gatherTerm) bool { return o.uid == uid }); i >= 0 {
		return t.terms[i]
	}
	return nil
}

func (d *device) gatheredBy(run string) bool {
	return slices.ContainsFunc(d.gathers, func(c Claim) bool { return c.Run == run })
}

// gatherer returns another run's gathering claim that excludes a job expected to end at ends (zero
// if unknown), or nil. If two runs gather a device, the one later in line withdraws; until then,
// neither excludes the other.
func (d *device) gatherer(ends time.Time) *Claim {
	for i := range d.gathers {
		if c := &d.gathers[i]; !d.mine && (ends.IsZero() || c.Ends.IsZero() || ends.After(c.Ends)) {
			return c
		}
	}
	return nil
}

// gatherer returns the gathering claim that excludes the request, or nil. A request to gather is
// never excluded.
func (q *query) gatherer(d *device) *Claim {
	if q.gathers || len(d.gathers) == 0 {
		return nil
	}
	var ends time.Time
	if q.req.Lasts > 0 {
		ends = q.pool.clock(q.now).Add(q.req.Lasts)
	}
	return d.gatherer(ends)
}

func gathererWords(q *query, d *device) string {
	c := q.gatherer(d)
	return fmt.Sprintf("kept for %s, who is gathering GPUs for %s", userName(c.User, c.UID), shortenName(c.Job))
}

// gathers reports whether a wish may get another device even if its job cannot start yet. Gathered
// devices are not dealt again, since they are claimed.
func (r *round) gathers(w *Wish, a *WishRequest, d *device) bool {
	own := w == &r.t.own
	if a != &w.Requests[0] || !r.t.gathers(r.now, w) || d.gatheredBy(w.Run) || own && d.mine {
		return false
	}
	has := r.p.count(func(d *device) bool {
		offered := d.to == w.Run || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.To == w.Run })
		return offered || own && (d.mine || d.offered) || d.gatheredBy(w.Run) || r.dealt[d.position] == w
	})
	return has < a.Min
}

// mayGather reports whether this run may gather for its first request, that is, whether no run
// ahead of it can use the devices. If begun is set, this run is already gathering, and only another
// gathering run ahead of it makes it stop.
func (r *round) mayGather(begun bool) bool {
	for _, w := range r.order(nil) {
		if w == &r.t.own {
			return true
		}
		could := func(a WishRequest) bool { return r.t.suits(r.now, w, &a) }
		if (!begun || r.t.gathers(r.now, w)) && r.wants[w] > 0 && slices.ContainsFunc(w.Requests, could) {
			return false
		}
	}
	return false
}

// patience returns how long this run must wait before it gathers.
func (t *Turns) patience(now time.Duration) time.Duration {
	if t.pool.rules.Host.User(t.pool.rules.UID, t.pool.clock(now)).Priority < 0 {
		return 0
	}
	return t.pool.rules.Host.Patience
}

// Gathered records the devices on which this run has gathering claims.
func (p *Pool) Gathered(ids []UUID) {
	for _, d := range p.devs {
		d.mine = slices.Contains(ids, d.UUID)
	}
}

// Gathering describes the devices that this run gathers.
type Gathering struct {
	On   bool
	IDs  []UUID        // devices on which it should have gathering claims now
	Ends time.Time     // when it expects to have all devices it needs; zero if unknown
	Next time.Duration // when the mere passage of time may change this; 0 for never
}

// Gather returns the devices to gather for req, the first request in this run's wish. It leaves out
// the devices in except.
func (t *Turns) Gather(now time.Duration, req Request, except []UUID) (g Gathering) {
	w, its := &t.own, &t.term
	if len(w.Requests) == 0 || *w.Requests[0].req != req || w.Background {
		return g
	}
	if g.Next = w.seen + t.patience(now); now < g.Next {
		return g
	}
	if g.Next = its.again(); its.pauses(now) {
		return g
	}
	r, begun := t.newRound(now), its.lasts(now)
	alone := !t.HasRivals() && !slices.ContainsFunc(t.pool.devs, func(d *device) bool { return len(d.claims) > 0 })
	would := t.suits(now, w, &w.Requests[0])
	if begun {
		would = its.enough(now, t.Courtesy(), would)
	}
	if g.Next = 0; !begun && alone || !would || !r.mayGather(begun) {
		return g
	}
	if !begun {
		*its = gatherTerm{began: now, until: now + max(t.pool.rules.Host.Gather, now-w.seen)}
	}
	return Gathering{true, r.gathered(&w.Requests[0], except), r.complete(&w.Requests[0]), its.until}
}

// gathered returns the devices on which to make gathering claims: first those already gathered,
// then free ones, then those with jobs that share.
func (r *round) gathered(a *WishRequest, except []UUID) []UUID {
	q := r.p.query(r.now, a.req)
	q.gathers = true
	var devs []*device
	rank := make([]int, len(r.p.devs))
	for _, d := range r.p.reach(r.now, &r.t.own, a) {
		switch {
		case len(d.holds) > 0 || slices.Contains(except, d.UUID):
			continue
		case d.mine:
		case q.refusal(rules, d) == nil && !d.unyielded:
			rank[d.position] = 1
		case len(d.claims) > 0 && !slices.ContainsFunc(d.claims, func(c Claim) bool { return !c.Share }):
			rank[d.position] = 2
		default:
			continue
		}
		devs = append(devs, d)
	}
	slices.SortStableFunc(devs, func(a, b *device) int { return cmp.Compare(rank[a.position], rank[b.position]) })
	return uuids(devs[:min(len(devs), a.Min)])
}

// complete returns the expected time at which this run has all devices it needs; zero if unknown.
func (r *round) complete(a *WishRequest) time.Time {
	var ends []time.Time
	for _, d := range r.p.reach(r.now, &r.t.own, a) {
		now, known := r.p.clock(r.now), true
		at := now
		later := func(t time.Time) {
			if known = known && t.After(now); t.After(at) { // overdue ends were only estimates
				at = t
			}
		}
		for _, h := range d.holds {
			later(h.Ends)
		}
		for i := range d.claims {
			later(d.claims[i].Ends)
		}
		if known {
			ends = append(ends, at)
		}
	}
	if len(ends) < a.Min {
		return time.Time{}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[a.Min-1]
}

// Clash records what other runs hold, as read after this run published a gathering claim on a
// device, and reports whether one of them holds the device exclusively.
func (p *Pool) Clash(now time.Duration, id UUID, claims []Claim) bool {
	if claims == nil {
		return false
	}
	p.observeClaims(now, claims, nil)
	d := p.device(id)
	return d == nil || slices.ContainsFunc(d.claims, func(c Claim) bool { return !c.Share })
}
