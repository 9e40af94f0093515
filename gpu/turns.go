package gpu

import (
	"slices"
	"time"
)

// The code in this file determines whose turn it is on a device. Every run determines this itself,
// by the same rules and from what all runs publish, so runs agree without a coordinator:
//
//   - A device that a run releases goes to the first wish in line that could start with it. If that
//     wish is another run's, the old claim becomes an offer to that run.
//   - Devices that become free in other ways (a foreign process or a run ended) are dealt among all
//     wishes. A run takes its own part immediately, and the other runs' parts if they have not
//     taken them within the courtesy period.
//   - A user whose run ignores an offer is skipped for a while.

const (
	skipFirst = time.Minute // a user who ignored an offer is skipped for this long,
	skipMost  = time.Hour   // doubled each time up to this
)

// A Turn names the run that gets a device, and why.
type Turn struct {
	Run string
	UID int
	Own bool   // Run is this run
	Why string // "offered to bob, who holds 1 GPU and has been waiting since 14:02; you hold 5"; "" if Own
}

// Turns decides whose turn it is on the devices of a pool and on the host's cores and memory, from
// the published wishes of all runs. The pool decides which devices a run may use at all.
type Turns struct {
	pool    *Pool
	own     Wish
	others  []Wish
	skipped []*skip
	missed  []string // runs that ignored an offer and have not held a device since
	left    []pendingTurn

	claimed, stated []hostHolding // host resources that other runs hold, according to their claims and wishes
	looked          bool          // whether other runs' claims and wishes were observed
	ahead           pendingTurn   // the run that last had the turn for cores and memory

	giving preemption
	term   gatherTerm    // when this run gathers
	terms  []*gatherTerm // when other users gather
}

// A skip temporarily excludes a user who ignored an offer.
type skip struct {
	uid   int
	until time.Duration
	pause time.Duration
	had   []UUID // devices that the user has held since before the skip
}

// A pendingTurn is a free device on which it is another user's turn, or a run whose turn it is for
// cores and memory.
type pendingTurn struct {
	id    UUID
	run   string
	uid   int
	since time.Duration
	last  time.Duration // when it was last that user's or run's turn
}

// SetWish sets this run's wish, which has no requests if no job waits.
func (t *Turns) SetWish(w Wish) {
	if w.seen = t.pool.usage.at; t.own.seen > 0 && t.own.Since.Equal(w.Since) {
		w.seen = t.own.seen
	} else {
		t.term = gatherTerm{}
	}
	t.own = w
}

// HasRivals reports whether any other run waits for devices.
func (t *Turns) HasRivals() bool { return len(t.others) > 0 }

// Waiting describes other runs that wait for devices: "bob since 14:02". most limits their number.
func (t *Turns) Waiting(most int) (names []string) {
	for i := range t.others {
		if w := &t.others[i]; len(names) < most {
			names = append(names, userName(w.User, w.UID)+" since "+w.Since.Local().Format("15:04"))
		}
	}
	return names
}

// Next returns whose turn it is on a device that an attempt of this run has just released. The
// devices in with are not dealt yet either. Next returns false if no run wants the device, or if
// this run must leave it to a foreground wish.
func (t *Turns) Next(now time.Duration, id UUID, with ...UUID) (Turn, bool) {
	d := t.pool.device(id)
	if d == nil {
		return Turn{}, false
	}
	r := t.newRound(now, append(with, id)...)
	for _, w := range r.order(d) {
		if r.serves(w, d) != nil {
			return r.turn(w, d), w != &t.own || !slices.Contains(t.reservedForWish(now), d)
		}
	}
	return Turn{}, false
}

// Theirs returns the free devices on which it is now other runs' turn, and when the mere passage of
// time changes that (0 for never).
func (t *Turns) Theirs(now time.Duration) (ids []UUID, next time.Duration) {
	if !t.HasRivals() {
		t.left = nil
		return nil, 0
	}
	r := t.newRound(now)
	r.deal()
	courtesy := t.Courtesy()
	for _, d := range t.reservedForWish(now) {
		ids = append(ids, d.UUID)
	}
	was := t.left
	t.left = nil
	for i, d := range t.pool.devs {
		w := r.dealt[i]
		if w == nil || w == &t.own {
			continue
		}
		l := pendingTurn{id: d.UUID, uid: w.UID, since: now}
		if k := slices.IndexFunc(was, func(o pendingTurn) bool { return o.id == l.id && o.uid == l.uid }); k >= 0 {
			l.since = was[k].since
		}
		t.left = append(t.left, l)
		if due := l.since + courtesy; now < due {
			ids = append(ids, d.UUID)
			if next == 0 || due < next {
				next = due
			}
		} else if t.pool.rules.Background && !w.Background {
			t.Skip(now, Turn{Run: w.Run, UID: w.UID}) // no job has to stop for a user who ignores offers
		}
	}
	for _, d := range r.drained() {
		ids = append(ids, d.UUID)
	}
	return ids, next
}

// drained returns the devices that this run's jobs share with each other, and on which it is the
// turn of a run that needs a whole device. No more jobs start on them, because otherwise they would
// never become free.
func (r *round) drained() (devs []*device) {
	list := r.p.filter(func(d *device) bool { return len(d.holds) > 0 && d.holds[0].Share && len(d.claims) == 0 })
	slices.SortStableFunc(list, func(a, b *device) int { return len(a.holds) - len(b.holds) })
	for _, d := range list {
		bare := d.without(func(*Claim) bool { return false }, true)
		for _, w := range r.order(d) {
			if w == &r.t.own {
				break
			}
			alone := func(a WishRequest) bool {
				return a.Min == 1 && !a.Share && a.fits(&bare, w.UID, w.Run) && r.affords(w, &a)
			}
			if r.wants[w] > 0 && slices.ContainsFunc(w.Requests, alone) {
				r.give(w, []*device{d})
				devs = append(devs, d)
				break
			}
		}
	}
	return devs
}

// Skip records that a run ignored an offer. Its user is skipped for a while, and the run comes
// after the user's other runs. Ignoring several offers at the same time counts once.
func (t *Turns) Skip(now time.Duration, turn Turn) {
	if !slices.Contains(t.missed, turn.Run) {
		t.missed = append(t.missed, turn.Run)
	}
	if t.isSkipped(now, turn.UID) {
		return
	}
	next := &skip{uid: turn.UID, pause: skipFirst, had: t.pool.claimedBy(func(c *Claim) bool { return c.UID == turn.UID })}
	if k := slices.IndexFunc(t.skipped, func(o *skip) bool { return o.uid == turn.UID }); k >= 0 {
		next.pause = min(2*t.skipped[k].pause, skipMost)
		t.skipped = slices.Delete(t.skipped, k, k+1)
	}
	next.until = now + next.pause
	t.skipped = append(t.skipped, next)
}

func (t *Turns) isSkipped(now time.Duration, uid int) bool {
	return slices.ContainsFunc(t.skipped, func(o *skip) bool { return o.uid == uid && now < o.until })
}

// endSkips stops skipping users who have taken a device since they were skipped. Hand-overs between
// their own jobs do not count, because one run could then excuse another that never takes an offer.
func (t *Turns) endSkips() {
	t.skipped = slices.DeleteFunc(t.skipped, func(o *skip) bool { return t.tookDevice(o.uid, &o.had) })
	t.missed = slices.DeleteFunc(t.missed, func(run string) bool {
		return len(t.pool.claimedBy(func(c *Claim) bool { return c.Run == run })) > 0
	})
}

// tookDevice reports whether a user holds a device outside had, the devices held ever since a skip
// or a gatherTerm began. It removes from had the devices that the user has released.
func (t *Turns) tookDevice(uid int, had *[]UUID) bool {
	now := t.pool.claimedBy(func(c *Claim) bool { return c.UID == uid })
	gained := slices.ContainsFunc(now, func(id UUID) bool { return !slices.Contains(*had, id) })
	*had = slices.DeleteFunc(*had, func(id UUID) bool { return !slices.Contains(now, id) })
	return gained
}

// observeWishes records the wishes of other runs, with the time when each was first seen.
func (t *Turns) observeWishes(now time.Duration, wishes []Wish) {
	known := t.others
	t.stated = nil
	t.others = slices.DeleteFunc(slices.Clone(wishes), func(w Wish) bool {
		if w.nonZero() {
			t.stated = append(t.stated, hostHolding{w.UID, w.Background, w.HostResources})
		}
		return len(w.Requests) == 0
	})
	for i := range t.others {
		w := &t.others[i]
		w.seen = now
		for _, k := range known {
			if k.Run == w.Run && k.UID == w.UID && k.Since.Equal(w.Since) {
				w.seen = k.seen
			}
		}
	}
}

// Wants returns how many devices the run of a turn is waiting for now.
func (t *Turns) Wants(now time.Duration, turn Turn) int {
	for i := range t.others {
		if w := &t.others[i]; w.Run == turn.Run && w.UID == turn.UID && !t.isSkipped(now, turn.UID) {
			return w.wants()
		}
	}
	return 0
}

// Renewed reports whether the run of a turn has stopped waiting and holds nothing, while another
// run of its user waits. That other run's wish does not count as accepting the offer.
func (t *Turns) Renewed(turn Turn) bool {
	waits := func(run bool) bool { // whether the run itself waits, or another run of its user
		return slices.ContainsFunc(t.others, func(w Wish) bool { return w.UID == turn.UID && (w.Run == turn.Run) == run })
	}
	holds := t.pool.claimedBy(func(c *Claim) bool { return c.Run == turn.Run && c.UID == turn.UID })
	return waits(false) && !waits(true) && len(holds) == 0
}

// Courtesy returns how long a device is reserved for the run whose turn it is.
func (t *Turns) Courtesy() time.Duration { return t.pool.rules.Host.Courtesy }
