package gpu

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A round distributes the free devices once.
type round struct {
	t      *Turns
	p      *Pool // its pool
	now    time.Duration
	wishes []*Wish
	loads  map[int]*load // by user
	wants  map[*Wish]int // number of devices that its run still needs
	dealt  []*Wish       // by device: the wish it was dealt to
	with   []UUID        // devices that attempts of this run have released and that are not dealt yet
	own    query         // for the last request of this run that was examined
}

// A load is the number of devices that a user holds on this host.
type load struct {
	parts []float64 // by device, at most 1
	given float64   // dealt in this round, or dealt earlier and not taken yet
}

// newRound starts a round. The devices in with were released by attempts of this run and are not
// dealt yet.
func (t *Turns) newRound(now time.Duration, with ...UUID) *round {
	r := &round{
		t: t, p: t.pool, now: now, with: with,
		loads: map[int]*load{}, wants: map[*Wish]int{}, dealt: make([]*Wish, len(t.pool.devs)),
	}
	add := func(w *Wish) {
		if len(w.Requests) > 0 && (w == &t.own || !t.isSkipped(now, w.UID)) {
			r.wishes = append(r.wishes, w)
			r.wants[w] = w.wants()
		}
	}
	add(&t.own)
	for i := range t.others {
		t.makeRoom(now, &t.others[i])
		add(&t.others[i])
	}
	for _, d := range t.pool.devs {
		r.weigh(d)
	}
	for _, w := range r.wishes {
		r.await(w)
	}
	return r
}

// makeRoom updates the room of another run of this user. If the user's limit is what restricts that
// run, it may use any devices that this run has released.
func (t *Turns) makeRoom(now time.Duration, w *Wish) {
	u := t.pool.rules.Host.User(t.pool.rules.UID, t.pool.clock(now))
	if w.UID != t.pool.rules.UID || u.MaxGPUs < 0 {
		return
	}
	for i := range w.Requests {
		if a := &w.Requests[i]; a.Most > 0 {
			a.Room = max(0, min(a.Most, u.MaxGPUs-t.pool.Held()))
		}
	}
}

// await adds the devices that were dealt for a user's jobs, but not taken yet, to that user's load,
// so that devices freed at the same time do not all go to one user.
func (r *round) await(w *Wish) {
	if w.Background || w.Gathers {
		return
	}
	dealt := r.p.count(func(d *device) bool { return r.offered(w, d) })
	each := max(1, w.Requests[0].Min)
	r.of(w.UID).given += float64(dealt / each * each)
}

// offered reports whether a device was dealt to a run that has not taken it yet.
func (r *round) offered(w *Wish, d *device) bool {
	if w == &r.t.own {
		return len(d.holds) == 0 && (d.offered || d.unyielded && d.to == "" && !slices.Contains(r.with, d.UUID))
	}
	offered := d.to == w.Run || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.To == w.Run })
	return offered && !slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Run == w.Run })
}

// has returns the number of devices dealt to a run, in this or an earlier round, that it has not
// taken yet.
func (r *round) has(w *Wish) int {
	return r.p.count(func(d *device) bool { return r.dealt[d.position] == w || r.offered(w, d) })
}

// weigh adds a device to the loads of the users who hold it, and subtracts an offered device from
// the wish of the run that it is offered to.
func (r *round) weigh(d *device) {
	for k := range d.holds {
		if !r.p.rules.Background {
			r.add(r.p.rules.UID, d, d.holdPart(&d.holds[k]))
		}
	}
	for _, c := range d.claims {
		if c.counts() {
			r.add(c.UID, d, d.claimPart(&c))
		}
		r.promise(c.To)
	}
	r.promise(d.to)
	for _, pr := range d.procs {
		ours := pr.UID == r.p.rules.UID && len(d.holds) > 0
		claimed := slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID == pr.UID })
		if pr.UID >= 0 && !ours && !claimed && pr.Attempt == "" {
			r.add(pr.UID, d, d.occupied(true, pr.Memory, 0))
		}
	}
}

// promise subtracts a device offered to a run from the run's wish.
func (r *round) promise(run string) {
	for _, w := range r.wishes {
		if run == w.Run && run != "" {
			r.wants[w] = max(0, r.wants[w]-1)
		}
	}
}

func (r *round) add(uid int, d *device, part float64) {
	at := &r.of(uid).parts[d.position]
	*at = min(1, *at+part)
}

func (r *round) of(uid int) *load {
	if r.loads[uid] == nil {
		r.loads[uid] = &load{parts: make([]float64, len(r.p.devs))}
	}
	return r.loads[uid]
}

// load returns how many devices a user holds, not counting d, which may be nil.
func (r *round) load(uid int, d *device) float64 {
	l := r.of(uid)
	sum := l.given
	for i, part := range l.parts {
		if d == nil || i != d.position {
			sum += part
		}
	}
	return sum
}

// holds returns how many devices the run of a wish holds or was dealt in this round.
func (r *round) holds(w *Wish) int {
	dealt := r.p.count(func(d *device) bool { return r.dealt[d.position] == w })
	return dealt + r.p.count(func(d *device) bool {
		return w == &r.t.own && len(d.holds) > 0 ||
			slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Run == w.Run && c.UID == w.UID && c.counts() })
	})
}

// A placeInLine is a wish's place in line; the lowest goes first.
type placeInLine struct {
	wish       *Wish
	background int
	class      int     // negative priorities, lowest first; then priority 0; then all positive ones together
	load       float64 // divided by the user's weight, which is a positive priority
	used       float64 // GPU seconds divided by the weight
	userSince  time.Time
	missed     int // 1 if the run ignored an offer; the user's other runs come first
	holds      int // held by the run
}

func (s *placeInLine) compare(o *placeInLine) int {
	return cmp.Or(
		cmp.Compare(s.background, o.background), cmp.Compare(s.class, o.class),
		cmp.Compare(s.load, o.load), cmp.Compare(s.used, o.used), s.userSince.Compare(o.userSince), cmp.Compare(s.wish.UID, o.wish.UID),
		cmp.Compare(s.missed, o.missed), cmp.Compare(s.holds, o.holds), s.wish.Since.Compare(o.wish.Since), cmp.Compare(s.wish.Run, o.wish.Run),
	)
}

// order returns the wishes in the order of the line for device d, which may be nil. d does not
// count toward any user's load.
func (r *round) order(d *device) []*Wish {
	return r.by(func(uid int) float64 { return r.load(uid, d) })
}

// by returns the wishes sorted by their users' loads.
func (r *round) by(load func(uid int) float64) []*Wish {
	list := make([]placeInLine, len(r.wishes))
	for i, w := range r.wishes {
		s := placeInLine{wish: w, userSince: w.Since, holds: r.holds(w)}
		if slices.Contains(r.t.missed, w.Run) {
			s.missed = 1
		}
		if w.Background {
			s.background = 1
		}
		k, weight := r.priority(w.UID)
		used := r.p.Used(w.UID)
		for _, o := range r.wishes {
			if o.UID != w.UID {
				continue
			}
			if used = max(used, o.Used); o.Since.Before(s.userSince) { // runs report the use as of different times
				s.userSince = o.Since
			}
		}
		if s.class = min(k, 1); r.p.rules.Host.Schedule != FIFO {
			s.load, s.used = rounded(load(w.UID)/weight), rounded(used/weight)
		}
		list[i] = s
	}
	slices.SortFunc(list, func(a, b placeInLine) int { return a.compare(&b) })
	ordered := make([]*Wish, len(list))
	for i := range list {
		ordered[i] = list[i].wish
	}
	return ordered
}

// priority returns a user's priority, and the weight that the user's load is divided by.
func (r *round) priority(uid int) (k int, weight float64) {
	k = r.p.rules.Host.User(uid, r.p.clock(r.now)).Priority
	return k, float64(max(k, 1))
}

// rounded makes sums of the same parts equal regardless of their order.
func rounded(f float64) float64 { return math.Round(f*1e6) / 1e6 }

// serves returns devices, including d, with which a request of a wish can start now; nil if none
// can.
func (r *round) serves(w *Wish, d *device) []*device {
	if r.wants[w] <= 0 {
		return nil
	}
	for i := range w.Requests {
		a := &w.Requests[i]
		if a.Min == 0 || a.Room < a.Min || a.Jobs <= 0 || !r.fits(w, a, d) || !r.affords(w, a) {
			continue
		}
		set := []*device{d}
		for k, o := range r.p.devs {
			if len(set) < a.Min && o != d && (!o.unyielded || w == &r.t.own || slices.Contains(r.with, o.UUID)) && (r.dealt[k] == nil || r.dealt[k] == w) && r.fits(w, a, o) {
				set = append(set, o)
			}
		}
		if len(set) >= a.Min {
			return set
		}
		if r.gathers(w, a, d) {
			return set[:1]
		}
	}
	return nil
}

// fits reports whether a device could serve a request. For this run's own requests, it applies all
// rules.
func (r *round) fits(w *Wish, a *WishRequest, d *device) bool {
	if a.req == nil {
		kept := d.mine || len(d.gathers) > 0 && !d.gatheredBy(w.Run)
		return !d.offered && !kept && r.p.closed(r.now, d) == "" && a.fits(d, w.UID, w.Run)
	}
	if len(d.holds) > 0 || !slices.Contains(a.UUIDs, d.UUID) {
		return false
	}
	if r.own.req != a.req {
		r.own = r.p.query(r.now, a.req)
	}
	why := r.own.refusal(rules, d)
	return why == nil || why.ours != nil && why.ours(&r.own, d)
}

// deal assigns every free device to the wish whose turn it is, one request after another.
func (r *round) deal() {
	for {
		given := false
		for _, w := range r.order(nil) {
			if set := r.first(w); set != nil {
				r.give(w, set)
				given = true
				break
			}
		}
		if !given {
			return
		}
	}
}

// first returns the first free devices that serve a wish.
func (r *round) first(w *Wish) []*device {
	for i, d := range r.p.devs {
		// Skip devices that a job of this run has just released: Next deals those.
		if r.dealt[i] == nil && !d.unyielded {
			if set := r.serves(w, d); set != nil {
				return set
			}
		}
	}
	return nil
}

func (r *round) give(w *Wish, set []*device) {
	for _, d := range set {
		if r.dealt[d.position] == nil {
			r.dealt[d.position] = w
			r.wants[w]--
			r.of(w.UID).given++
		}
	}
}

func (r *round) turn(w *Wish, d *device) Turn {
	t := Turn{Run: w.Run, UID: w.UID, Own: w == &r.t.own}
	if !t.Own {
		t.Why = fmt.Sprintf("offered to %s, who holds %s and has been waiting since %s; you hold %s",
			userName(w.User, w.UID), devices(r.load(w.UID, d)), w.Since.Local().Format("15:04"), devices(r.load(r.p.rules.UID, d)))
	}
	return t
}

func devices(load float64) string {
	if whole := math.Round(load); math.Abs(load-whole) < 0.05 {
		return count(int(whole))
	}
	return fmt.Sprintf("%.1f GPUs", load)
}
