package gpu

import (
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
	left   []leaving
}

// A pass is a user who did not take what was offered.
type pass struct {
	uid   int
	until time.Duration
	pause time.Duration
	had   []string // attempts of the user's claims then
}

// leaving is a device that is free but another user's turn.
type leaving struct {
	id    UUID
	uid   int
	since time.Duration
}

// Want records what this run waits for. It has no asks if that is nothing.
func (p *Pool) Want(w Wish) { p.own = w }

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

// Next returns whose turn it is on a device that an attempt of this run has just left;
// false if nobody wants it.
func (p *Pool) Next(now time.Duration, id UUID) (Turn, bool) {
	d := p.device(id)
	if d == nil {
		return Turn{}, false
	}
	r := p.newRound(now)
	for _, w := range r.order(d) {
		if r.serves(w, d) != nil {
			return r.turn(w, d), true
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
	was := p.left
	p.left = nil
	for i := range p.devs {
		d, w := &p.devs[i], r.dealt[i]
		if w == nil || w == &p.own {
			continue
		}
		l := leaving{d.UUID, w.UID, now}
		if k := slices.IndexFunc(was, func(o leaving) bool { return o.id == l.id && o.uid == l.uid }); k >= 0 {
			l.since = was[k].since
		}
		p.left = append(p.left, l)
		if due := l.since + courtesy; now < due {
			ids = append(ids, d.UUID)
			if next == 0 || due < next {
				next = due
			}
		}
	}
	return ids, next
}

// PassOver records that a user did not take what was offered.
func (p *Pool) PassOver(now time.Duration, uid int) {
	next := pass{uid: uid, pause: passFirst, had: p.attemptsOf(uid)}
	if k := slices.IndexFunc(p.passed, func(o pass) bool { return o.uid == uid }); k >= 0 {
		next.pause = min(2*p.passed[k].pause, passMost)
		p.passed = slices.Delete(p.passed, k, k+1)
	}
	next.until = now + next.pause
	p.passed = append(p.passed, next)
}

// attemptsOf returns the attempts for which a user holds claims.
func (p *Pool) attemptsOf(uid int) (had []string) {
	for i := range p.devs {
		for _, c := range p.devs[i].claims {
			if c.UID == uid && c.counts() {
				had = append(had, c.Attempt)
			}
		}
	}
	return had
}

// forgive ends the passing over of users who have taken something since.
func (p *Pool) forgive() {
	p.passed = slices.DeleteFunc(p.passed, func(o pass) bool {
		return slices.ContainsFunc(p.attemptsOf(o.uid), func(a string) bool { return !slices.Contains(o.had, a) })
	})
}

// Notice records what other runs claim and wish for, without a reading.
func (p *Pool) Notice(now time.Duration, claims []Claim, wishes []Wish) {
	p.observeClaims(now, claims, nil)
	p.others = wishes
}

// Offered returns the devices that other runs offer to this one and that it has not taken.
func (p *Pool) Offered() (ids []UUID) {
	for i := range p.devs {
		if d := &p.devs[i]; d.offered && len(d.holds) == 0 {
			ids = append(ids, d.UUID)
		}
	}
	return ids
}

// Took reports whether the run whose turn it is has claimed a device.
func (p *Pool) Took(id UUID, t Turn) bool {
	d := p.device(id)
	return d != nil && slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Run == t.Run && c.UID == t.UID && c.To == "" })
}

// Courtesy returns how long a device is left to the run whose turn it is.
func (p *Pool) Courtesy() time.Duration { return p.rules.Host.Courtesy }

// counts reports whether a claim makes its user hold the device: an offer or a gathering
// claim does not, and background runs hold nothing that anybody has to wait for.
func (c *Claim) counts() bool { return c.To == "" && !c.Background }
