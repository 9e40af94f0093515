package gpu

import (
	"slices"
	"time"
)

// A Gift is a device that an attempt could leave to somebody who waits.
type Gift struct {
	UUID UUID
	Turn Turn
}

// Busy returns how busy devices have been since then, a minute ago at most: on average, in
// percent. It is false unless they have been watched all the time.
func (p *Pool) Busy(now, since time.Duration, ids []UUID) (percent int, known bool) {
	sum, n := 0, 0
	for d := range p.among(ids) {
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

// Wanted reports whether another run waits that could use a device.
func (p *Pool) Wanted(id UUID) bool {
	return slices.ContainsFunc(p.others, func(w Wish) bool {
		return slices.ContainsFunc(w.Asks, func(a Ask) bool { return a.Room > 0 && slices.Contains(a.UUIDs, id) })
	})
}

// Gifts returns the devices that an attempt of this run could leave to somebody who waits,
// who is ahead of this run in the order and whom free devices do not satisfy. It keeps as
// many devices as its request must have, and nothing is given away if it could not have
// them again. An idle attempt leaves its devices to anybody who waits, also to its run's
// other jobs. Wishes that have not lasted long enough get nothing, nor do users for whom
// except is true.
func (p *Pool) Gifts(now time.Duration, attempt string, req Request, idle bool, except func(uid int) bool) []Gift {
	c := p.imagined()
	c.others = slices.DeleteFunc(c.others, func(w Wish) bool { return now < w.seen+p.Courtesy() || except(w.UID) })
	as, r := c.newRound(now), c.newRound(now)
	r.deal() // free devices first
	mine, least := c.heldBy(attempt), max(1, req.Min)
	some := slices.DeleteFunc(slices.Clone(mine), func(d *device) bool { return !r.wanted(d) })
	some = some[max(0, len(some)-max(0, len(mine)-least)):] // the last ones
	if len(some) == 0 || !p.Again(now, attempt, req) {
		return nil
	}
	for _, d := range some {
		d.leave(now, attempt)
		d.count(c.rules.UID)
		r.unload(c.rules.UID, d)
	}
	if !idle {
		one := req
		one.Min, one.Max = 1, 1
		r.want(&c.own, Ask{Jobs: len(some), Min: 1, Room: len(some), UUIDs: uuids(some), req: &one})
	}
	r.deal()
	var gifts []Gift
	for _, d := range some {
		if w := r.dealt[d.position]; w != nil && (idle || w != &c.own) {
			gifts = append(gifts, Gift{d.UUID, as.turn(w, nil)})
		}
	}
	return gifts
}

// imagined returns a copy of the pool, to see what would be if attempts left.
func (p *Pool) imagined() *Pool {
	c := *p
	c.devs, c.others, c.own.Asks = slices.Clone(p.devs), slices.Clone(p.others), slices.Clone(p.own.Asks)
	for i := range c.devs {
		d := &c.devs[i]
		d.holds, d.procs, d.claims = slices.Clone(d.holds), slices.Clone(d.procs), slices.Clone(d.claims)
	}
	return &c
}

// leave is release without a hand-over, and as if its memory had been read since.
func (d *device) leave(now time.Duration, attempt string) {
	d.release(now, attempt)
	d.unyielded, d.awaited = false, false
}

// Again reports whether an attempt's devices would take it again if it left them now.
func (p *Pool) Again(now time.Duration, attempt string, req Request) bool {
	c := p.imagined()
	mine := c.heldBy(attempt)
	for _, d := range mine {
		d.leave(now, attempt)
		d.count(c.rules.UID)
	}
	q := c.query(now, &req)
	return !slices.ContainsFunc(mine, func(d *device) bool {
		why := q.refusal(rules, d)
		return why != nil && (why.ours == nil || !why.ours(&q, d))
	})
}

// heldBy returns the devices that an attempt holds.
func (p *Pool) heldBy(attempt string) (devs []*device) {
	for i := range p.devs {
		if d := &p.devs[i]; d.hold(attempt) != nil {
			devs = append(devs, d)
		}
	}
	return devs
}

// wanted reports whether some wish could use a device.
func (r *round) wanted(d *device) bool {
	return slices.ContainsFunc(r.wishes, func(w *Wish) bool {
		return slices.ContainsFunc(w.Asks, func(a Ask) bool { return slices.Contains(a.UUIDs, d.UUID) })
	})
}

// unload takes a device from what a user holds.
func (r *round) unload(uid int, d *device) {
	for i := range r.loads {
		if r.loads[i].uid == uid {
			r.loads[i].parts[d.position] = 0
		}
	}
}

// want adds an ask to a wish.
func (r *round) want(w *Wish, a Ask) {
	w.Asks = append(w.Asks, a)
	i := slices.Index(r.wishes, w)
	if i < 0 {
		i = len(r.wishes)
		r.wishes, r.wants = append(r.wishes, w), append(r.wants, 0)
	}
	r.wants[i] += a.Jobs
}
