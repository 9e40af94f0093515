package gpu

import (
	"hash/fnv"
	"slices"
	"time"
)

// Whose turn it is on a device. Every run decides this for itself, from what all runs
// publish, by the same rules, so that they agree without a coordinator:
//
//   - A device that a run leaves goes to the first wish, in the order below, that could
//     start with it. If that is another run's, the leaving claim becomes an offer to it.
//   - Devices that nobody leaves (a foreign process went, a run ended) are dealt among all
//     wishes. A run takes its part at once, and what falls to others once they have had
//     time to come.
//   - A user whose run does not come is passed over for a while.

const (
	passFirst = time.Minute // a user who did not come is passed over for this long,
	passMost  = time.Hour   // doubled each time up to this
)

// A Turn says which run a device goes to, and why.
type Turn struct {
	Run string
	UID int
	Own bool   // it is this run
	Why string // "offered to bob, who holds 1 GPU and waits since 14:02; you hold 5"; "" if Own
}

// waiting is what a pool knows of who waits for devices.
type waiting struct {
	own    Wish
	others []Wish
	passed []pass
	missed []string // runs that did not come, until they hold something
	left   []leaving

	claimed, stated []taking // what other runs hold besides devices, by their claims and by their wishes
	looked          bool     // they have been looked for
	ahead           leaving  // to whom cores and memory fell last
}

// A pass is a user who did not take what was offered.
type pass struct {
	uid   int
	until time.Duration
	pause time.Duration
	had   []UUID // what the user has held ever since
}

// leaving is a device that is free but another user's turn, or a run whose turn it is.
type leaving struct {
	id    UUID
	run   string
	uid   int
	since time.Duration
	last  time.Duration // when that was still so
}

// Want records what this run waits for. It has no asks if that is nothing.
func (p *Pool) Want(w Wish) {
	if w.seen = p.usage.at; len(p.own.Asks) > 0 && p.own.Since.Equal(w.Since) {
		w.seen = p.own.seen
	} else {
		p.term = term{}
	}
	p.own = w
}

// Rivals reports whether any other run waits for devices.
func (p *Pool) Rivals() bool { return len(p.others) > 0 }

// Waiting names the other runs that wait for devices, up to most: "bob since 14:02".
func (p *Pool) Waiting(most int) (names []string) {
	for i := range p.others {
		if w := &p.others[i]; len(names) < most {
			names = append(names, userName(w.User, w.UID)+" since "+w.Since.Local().Format("15:04"))
		}
	}
	return names
}

// Next returns whose turn it is on a device that an attempt of this run has just left, with
// others that are not dealt yet either; false if nobody wants it.
func (p *Pool) Next(now time.Duration, id UUID, with ...UUID) (Turn, bool) {
	d := p.device(id)
	if d == nil {
		return Turn{}, false
	}
	r := p.newRound(now, append(with, id)...)
	for _, w := range r.order(d) {
		if r.serves(w, d) != nil {
			return r.turn(w, d), w != &p.own || !slices.Contains(p.owed(now), d)
		}
	}
	return Turn{}, false
}

// Theirs returns the free devices that are other runs' turn now, and when that changes by
// time alone (0 for never).
func (p *Pool) Theirs(now time.Duration) (ids []UUID, next time.Duration) {
	if !p.Rivals() {
		p.left = nil
		return nil, 0
	}
	r := p.newRound(now)
	r.deal()
	courtesy := p.Courtesy()
	for _, d := range p.owed(now) {
		ids = append(ids, d.UUID)
	}
	was := p.left
	p.left = nil
	for i, d := range p.devs {
		w := r.dealt[i]
		if w == nil || w == &p.own {
			continue
		}
		l := leaving{id: d.UUID, uid: w.UID, since: now}
		if k := slices.IndexFunc(was, func(o leaving) bool { return o.id == l.id && o.uid == l.uid }); k >= 0 {
			l.since = was[k].since
		}
		p.left = append(p.left, l)
		if due := l.since + courtesy; now < due {
			ids = append(ids, d.UUID)
			if next == 0 || due < next {
				next = due
			}
		} else if p.rules.Background && !w.Background {
			p.PassOver(now, Turn{Run: w.Run, UID: w.UID}) // no job has to go for somebody who does not come
		}
	}
	for _, d := range r.drained() {
		ids = append(ids, d.UUID)
	}
	return ids, next
}

// drained returns the devices on which only jobs of this run are, sharing them, and which fall to
// somebody else who needs one alone: no job joins these there, or such a device would never be left.
func (r *round) drained() (devs []*device) {
	list := r.p.those(func(d *device) bool { return len(d.holds) > 0 && d.holds[0].share && len(d.claims) == 0 })
	slices.SortStableFunc(list, func(a, b *device) int { return len(a.holds) - len(b.holds) })
	for _, d := range list {
		bare := d.without(func(*Claim) bool { return false }, true)
		for _, w := range r.order(d) {
			if w == &r.p.own {
				break
			}
			alone := func(a Ask) bool { return a.Min == 1 && !a.Share && a.fits(&bare, w.UID, w.Run) && r.affords(w, &a) }
			if r.wants[slices.Index(r.wishes, w)] > 0 && slices.ContainsFunc(w.Asks, alone) {
				r.give(w, []*device{d})
				devs = append(devs, d)
				break
			}
		}
	}
	return devs
}

// PassOver records that a run did not take what was offered: its user is passed over for a
// while, and it comes after the user's other runs. Several devices offered at once count once.
func (p *Pool) PassOver(now time.Duration, t Turn) {
	if !slices.Contains(p.missed, t.Run) {
		p.missed = append(p.missed, t.Run)
	}
	if p.over(now, t.UID) {
		return
	}
	next := pass{uid: t.UID, pause: passFirst, had: p.claimedBy(func(c *Claim) bool { return c.UID == t.UID })}
	if k := slices.IndexFunc(p.passed, func(o pass) bool { return o.uid == t.UID }); k >= 0 {
		next.pause = min(2*p.passed[k].pause, passMost)
		p.passed = slices.Delete(p.passed, k, k+1)
	}
	next.until = now + next.pause
	p.passed = append(p.passed, next)
}

// over reports whether a user is passed over.
func (p *Pool) over(now time.Duration, uid int) bool {
	return slices.ContainsFunc(p.passed, func(o pass) bool { return o.uid == uid && now < o.until })
}

// claimedBy returns the devices with such a claim of another run that counts.
func (p *Pool) claimedBy(by func(*Claim) bool) []UUID {
	return uuids(p.those(func(d *device) bool {
		return slices.ContainsFunc(d.claims, func(c Claim) bool { return c.counts() && by(&c) })
	}))
}

// forgive ends the passing over of users who have taken a device since: what their jobs hand on
// to each other does not count, or one run could excuse another that never comes.
func (p *Pool) forgive() {
	for i := range p.passed {
		if o := &p.passed[i]; p.gained(o.uid, &o.had) {
			o.pause = 0
		}
	}
	p.passed = slices.DeleteFunc(p.passed, func(o pass) bool { return o.pause == 0 })
	p.missed = slices.DeleteFunc(p.missed, func(run string) bool {
		return len(p.claimedBy(func(c *Claim) bool { return c.Run == run })) > 0
	})
}

// gained reports whether a user has taken a device that is not among had: what the user has
// held all the time since something began, of which it takes what is left since.
func (p *Pool) gained(uid int, had *[]UUID) bool {
	now := p.claimedBy(func(c *Claim) bool { return c.UID == uid })
	gained := slices.ContainsFunc(now, func(id UUID) bool { return !slices.Contains(*had, id) })
	*had = slices.DeleteFunc(*had, func(id UUID) bool { return !slices.Contains(now, id) })
	return gained
}

// Notice records what other runs claim and wish for, without a reading.
func (p *Pool) Notice(now time.Duration, claims []Claim, wishes []Wish) {
	p.hear(now, wishes)
	p.observeClaims(now, claims, nil)
}

// hear records what other runs wish for, and since when that is known.
func (p *Pool) hear(now time.Duration, wishes []Wish) {
	known := p.others
	p.stated = nil
	p.others = slices.DeleteFunc(slices.Clone(wishes), func(w Wish) bool {
		if w.some() {
			p.stated = append(p.stated, taking{w.UID, w.Background, w.Beyond})
		}
		return len(w.Asks) == 0
	})
	for i := range p.others {
		w := &p.others[i]
		w.seen = now
		for _, k := range known {
			if k.Run == w.Run && k.UID == w.UID && k.Since.Equal(w.Since) {
				w.seen = k.seen
			}
		}
	}
}

// Offered returns the devices that other runs offer to this one and that it has not taken.
func (p *Pool) Offered() []UUID {
	return uuids(p.those(func(d *device) bool { return d.offered && len(d.holds) == 0 }))
}

// Offer records that this run offers a device that an attempt of it has left to another run,
// or to none any more.
func (p *Pool) Offer(id UUID, run string) {
	if d := p.device(id); d != nil {
		d.to, d.unyielded = run, false
	}
}

// Took reports whether a device that this run offered has been claimed by the run whose turn it
// was, which may have offered it to somebody else since, or back.
func (p *Pool) Took(id UUID, t Turn) bool {
	d := p.device(id)
	return d != nil && (d.offered || d.gatheredBy(t.Run) || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Run == t.Run }))
}

// Barred reports whether another run has claimed a device.
func (p *Pool) Barred(id UUID) bool {
	d := p.device(id)
	return d != nil && len(d.claims) > 0
}

// Wants returns how many devices the run whose turn it was waits for now.
func (p *Pool) Wants(now time.Duration, t Turn) int {
	for i := range p.others {
		if w := &p.others[i]; w.Run == t.Run && w.UID == t.UID && !p.over(now, t.UID) {
			return w.wants()
		}
	}
	return 0
}

// Renewed reports whether the run whose turn it was has stopped waiting and holds nothing, while
// another run of its user waits: who makes a new wish of each has not come either.
func (p *Pool) Renewed(t Turn) (renewed bool) {
	for i := range p.others {
		switch w := &p.others[i]; {
		case w.UID != t.UID:
		case w.Run == t.Run:
			return false
		default:
			renewed = true
		}
	}
	return renewed && len(p.claimedBy(func(c *Claim) bool { return c.Run == t.Run && c.UID == t.UID })) == 0
}

// Apart returns how long to leave devices alone after losing a race for them, the losses-th in
// a row. The pause depends on the name of the claim, so that two that collided wait for
// different times: at first, from 5 to 50 ms.
func Apart(name string, losses int, most time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return min(time.Duration(5+h.Sum32()%46)*time.Millisecond<<min(losses-1, 10), most)
}

// Courtesy returns how long a device is left to the run whose turn it is.
func (p *Pool) Courtesy() time.Duration { return p.rules.Host.Courtesy }

// taken reports whether the run that c offers its device to has claimed it since: that ends the
// offer, even if whoever made it is stopped.
func (c *Claim) taken(claims []Claim) bool {
	return c.To != "" && slices.ContainsFunc(claims, func(o Claim) bool { return o.UUID == c.UUID && o.Run == c.To && o.Since.After(c.Since) })
}

// counts reports whether a claim makes its user hold the device: an offer or a gathering
// claim does not, and background runs hold nothing that anybody has to wait for.
func (c *Claim) counts() bool { return c.To == "" && !c.Background }
