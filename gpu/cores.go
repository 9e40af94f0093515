package gpu

import (
	"fmt"
	"slices"
	"time"
)

// Host cores and memory are dealt in the same order as devices, and a user's load is the larger of
// their shares of the two. There are no offers. Instead, each run computes whether its job would
// still fit after the runs ahead of it have taken what they request. If not, it waits for them, but
// only for the courtesy period. Memory is never promised twice. Cores may be promised twice, to
// users who hold less than an equal share, because too few cores slow jobs down but do not kill
// them.

// A hostHolding records the cores and memory held by one attempt, or by all of a run's attempts
// that have no devices.
type hostHolding struct {
	uid        int
	background bool
	HostResources
}

// A Shortage is a lack of host cores or memory that prevents a start.
type Shortage struct {
	Memory    bool          // memory is short, rather than cores
	All, Free HostResources // resources of the host
	First     string        // if enough is free, the user who goes first: "bob, waiting since 14:02"
}

// A hostCapacity tracks the host's cores and memory in a round.
type hostCapacity struct {
	*round
	free  HostResources
	held  map[int]HostResources // by user, without background runs
	users map[int]float64       // weights of users who hold or wait for resources
	dealt map[*WishRequest]int
}

const (
	dealtMost = 8   // maximum number of jobs considered for each request of another run
	dealsMost = 256 // maximum number of jobs considered in total
)

// nonZero reports whether b includes any cores or memory.
func (b *HostResources) nonZero() bool { return b.CPUs > 0 || b.RAM > 0 }

// Add adds other resources, or subtracts them if by is -1.
func (b *HostResources) Add(o HostResources, by int) {
	b.CPUs, b.RAM = b.CPUs+by*o.CPUs, b.RAM+Bytes(by)*o.RAM
}

// hostHoldings returns the holdings of the claims' attempts, counting each attempt once. It ignores
// claims on devices that the host does not have.
func (p *Pool) hostHoldings(claims []Claim) (list []hostHolding) {
	type attempt struct {
		uid  int
		name string
	}
	seen := map[attempt]bool{}
	for _, c := range claims {
		if name := (attempt{c.UID, c.Attempt}); c.To == "" && c.nonZero() && !seen[name] && p.device(c.UUID) != nil {
			seen[name] = true
			list = append(list, hostHolding{c.UID, c.Background, c.HostResources})
		}
	}
	return list
}

// alone reports whether no other run holds or waits for cores or memory.
func (t *Turns) alone() bool {
	return len(t.claimed)+len(t.stated) == 0 && !slices.ContainsFunc(t.others, Wish.presses)
}

// Shortage returns why an attempt that requires need cannot start now, given that this run's other
// attempts hold own. It returns nil if the attempt can start.
func (t *Turns) Shortage(now time.Duration, own, need HostResources) *Shortage {
	if !need.nonZero() || !t.pool.rules.Machine.nonZero() || t.looked && t.alone() {
		return nil
	}
	f := t.newRound(now).hostCapacity(own)
	l := &Shortage{All: t.pool.rules.Machine, Free: f.free}
	if !t.looked {
		return l
	}
	if cores, memory := f.short(&t.own, need); cores || memory {
		l.Memory = !cores
		return l
	}
	first, insists, ok := f.reaches(&t.own, need)
	if ok {
		return nil
	}
	if !insists && t.late(now, first) {
		t.Skip(now, Turn{Run: first.Run, UID: first.UID})
		return t.Shortage(now, own, need)
	}
	l.Memory, l.First = need.CPUs == 0, userName(first.User, first.UID)+", waiting since "+first.Since.Local().Format("15:04")
	return l
}

// Why describes the shortage for an attempt that requires need, given that other attempts of its
// run hold own.
func (l *Shortage) Why(own, need HostResources) string {
	asks, free, all, theirs := "1 core", fmt.Sprint(max(0, l.Free.CPUs)), fmt.Sprint(l.All.CPUs), fmt.Sprint(l.All.CPUs-l.Free.CPUs-own.CPUs)
	if need.CPUs != 1 {
		asks = fmt.Sprintf("%d cores", need.CPUs)
	}
	are := "are"
	if l.Memory {
		are, asks, free, all = "is", need.RAM.Asked()+" of host memory", max(0, l.Free.RAM).Round(), l.All.RAM.Round()
		theirs = (l.All.RAM - l.Free.RAM - own.RAM).Round()
	}
	why := "other runs hold " + theirs
	if l.First != "" {
		why = l.First + ", goes first"
	}
	return fmt.Sprintf("needs %s; %s of %s %s free: %s", asks, free, all, are, why)
}

// late reports whether a run did not take its turn within the courtesy period.
func (t *Turns) late(now time.Duration, w *Wish) bool {
	l := &t.ahead
	if l.run != w.Run || l.uid != w.UID || l.since < w.seen || now > l.last+t.pool.gap() {
		*l = pendingTurn{run: w.Run, uid: w.UID, since: now}
	}
	l.last = now
	return now >= t.Due()
}

// Due returns when the current turn for cores and memory expires.
func (t *Turns) Due() time.Duration { return t.ahead.since + t.Courtesy() }

// affords reports whether the host's free cores and memory suffice for one more job of a wish, in
// addition to the jobs that the wish has been dealt devices for.
func (r *round) affords(w *Wish, a *WishRequest) bool {
	if !a.nonZero() || r.t.alone() {
		return true
	}
	f := r.hostCapacity(r.t.own.All)
	f.take(hostHolding{w.UID, w.Background, HostResources{CPUs: r.has(w) / a.Min * a.CPUs, RAM: Bytes(r.has(w)/a.Min) * a.RAM}})
	_, _, ok := f.reaches(w, a.HostResources)
	return ok
}

func (r *round) hostCapacity(own HostResources) *hostCapacity {
	t, rules := r.t, &r.p.rules
	f := &hostCapacity{round: r, free: rules.Machine, held: map[int]HostResources{}, users: map[int]float64{}, dealt: map[*WishRequest]int{}}
	for _, held := range append(slices.Concat(t.claimed, t.stated), hostHolding{rules.UID, rules.Background, own}) {
		f.take(held)
	}
	if !slices.Contains(r.wishes, &t.own) {
		r.wishes = append(r.wishes, &t.own)
	}
	for _, w := range r.wishes {
		if w.presses() {
			f.take(hostHolding{uid: w.UID})
		}
	}
	return f
}

// take subtracts a holding from what is free and, unless it is in the background, adds it to its
// user's share.
func (f *hostCapacity) take(t hostHolding) {
	if f.free.Add(t.HostResources, -1); !t.background {
		h := f.held[t.uid]
		h.Add(t.HostResources, 1)
		f.held[t.uid] = h
		_, f.users[t.uid] = f.priority(t.uid)
	}
}

// short reports whether too few cores or too little memory is free for a job of a wish.
func (f *hostCapacity) short(w *Wish, need HostResources) (cores, memory bool) {
	all, weights := f.p.rules.Machine, 0.0
	for _, weight := range f.users {
		weights += weight
	}
	below := !w.Background && float64(f.held[w.UID].CPUs)*weights < float64(all.CPUs)*f.users[w.UID]
	return all.CPUs > 0 && need.CPUs > 0 && need.CPUs > f.free.CPUs && !below, all.RAM > 0 && need.RAM > 0 && need.RAM > f.free.RAM
}

// part returns a user's share of the host's cores or memory, whichever is larger.
func (f *hostCapacity) part(uid int) float64 {
	h, all := f.held[uid], f.p.rules.Machine
	return max(float64(h.CPUs)/float64(max(all.CPUs, 1)), float64(h.RAM)/float64(max(all.RAM, 1)))
}

// reaches reports whether enough is left for a job of w after the wishes ahead of it are served. If
// not, it also returns the first wish ahead of w, and whether that wish has waited so long that
// memory is reserved for it, just as devices are gathered.
func (f *hostCapacity) reaches(w *Wish, need HostResources) (first *Wish, kept, ok bool) {
	for range dealsMost {
		o, a, insists := f.next(w)
		if first == nil {
			first = o
		}
		if o == w || insists {
			cores, memory := f.short(w, need)
			return first, insists && first == o, !insists && !cores && !memory
		}
		f.take(hostHolding{o.UID, o.Background, a.HostResources})
		f.dealt[a]++
	}
	return first, false, false
}

// next returns the next wish in line and the request to serve, or w itself if no wish ahead of it
// can be served. It skips jobs that still lack devices. insists reports whether memory is reserved
// for the wish.
func (f *hostCapacity) next(w *Wish) (o *Wish, a *WishRequest, insists bool) {
	for _, o := range f.by(f.part) {
		if o == w {
			break
		}
		for i := range o.Requests {
			a := &o.Requests[i]
			cores, memory := f.short(o, a.HostResources)
			switch passed := f.now - o.seen - f.p.rules.Host.Patience; {
			case !a.nonZero() || f.dealt[a] >= min(a.Jobs, dealtMost):
			case memory && passed >= 0 && passed%max(2*f.p.rules.Host.Gather, 1) < f.p.rules.Host.Gather &&
				a.RAM <= f.p.rules.Machine.RAM && (a.Min == 0 || f.t.suits(f.now, o, a)):
				return o, a, true
			case !cores && !memory && f.has(o) >= (f.dealt[a]+1)*a.Min:
				return o, a, false
			}
		}
	}
	return w, nil, false
}
