package gpu

import (
	"fmt"
	"slices"
	"time"
)

// Cores and memory of the host are dealt in the order in which devices are; a user's load is then
// the larger of the parts of them that he holds. Nobody hands them over: each run finds out for
// itself whether what is free would do for its job if those who come first took what they wait
// for, and leaves that to them for courtesy. Memory is never dealt twice. Cores are, to whoever
// holds less than an equal share of them: too few make jobs slow, but kill none.

// A hostHolding is what an attempt holds besides devices, or all attempts of a run without devices.
type hostHolding struct {
	uid        int
	background bool
	HostResources
}

// A Shortage is why the host's cores and memory let an attempt not start.
type Shortage struct {
	Memory    bool          // it is memory that does not suffice, not cores
	All, Free HostResources // what the host has, and what nobody holds
	First     string        // who comes first, if it would suffice: "bob, who waits since 14:02"
}

// A hostCapacity is what there is of the host's cores and memory in a round.
type hostCapacity struct {
	*round
	free  HostResources
	held  map[int]HostResources // by user, apart from background runs
	users map[int]float64       // weights of those who hold some or wait for some
	dealt map[*WishRequest]int
}

const (
	dealtMost = 8   // jobs alike of somebody else that are thought of at a time
	dealsMost = 256 // in all
)

// nonZero reports whether there is any need of cores or memory.
func (b *HostResources) nonZero() bool { return b.CPUs > 0 || b.RAM > 0 }

// Add counts what something else holds, or with by -1 takes it away.
func (b *HostResources) Add(o HostResources, by int) {
	b.CPUs, b.RAM = b.CPUs+by*o.CPUs, b.RAM+Bytes(by)*o.RAM
}

// hostHoldings returns what the attempts of some claims hold, each once. A claim on a device that the
// host does not have counts for nothing.
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

// alone reports whether no other run holds cores or memory, nor waits for them.
func (t *Turns) alone() bool {
	return len(t.claimed)+len(t.stated) == 0 && !slices.ContainsFunc(t.others, Wish.presses)
}

// Shortage returns why an attempt of this run that needs so much cannot start now, if its others hold
// own; nil if it can.
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
	l.Memory, l.First = need.CPUs == 0, userName(first.User, first.UID)+", who waits since "+first.Since.Local().Format("15:04")
	return l
}

// Why describes a lack to whoever needs so much, if others of the same run hold own.
func (l *Shortage) Why(own, need HostResources) string {
	asks, free, all, theirs := "1 core", fmt.Sprint(max(0, l.Free.CPUs)), fmt.Sprint(l.All.CPUs), fmt.Sprint(l.All.CPUs-l.Free.CPUs-own.CPUs)
	if need.CPUs != 1 {
		asks = fmt.Sprintf("%d cores", need.CPUs)
	}
	if l.Memory {
		asks, free, all = need.RAM.Asked()+" of host memory", max(0, l.Free.RAM).Round(), l.All.RAM.Round()
		theirs = (l.All.RAM - l.Free.RAM - own.RAM).Round()
	}
	why := "other runs hold " + theirs
	if l.First != "" {
		why = l.First + ", goes first"
	}
	return fmt.Sprintf("needs %s, %s of %s are free: %s", asks, free, all, why)
}

// late reports whether a run has not taken for courtesy what fell to it.
func (t *Turns) late(now time.Duration, w *Wish) bool {
	l := &t.ahead
	if l.run != w.Run || l.uid != w.UID || l.since < w.seen || now > l.last+t.pool.gap() {
		*l = pendingTurn{run: w.Run, uid: w.UID, since: now}
	}
	l.last = now
	return now >= t.Due()
}

// Due returns when time alone changes whose turn it is to take cores and memory.
func (t *Turns) Due() time.Duration { return t.ahead.since + t.Courtesy() }

// affords reports whether what is free of the host's cores and memory would reach one more job of
// a wish, besides those for which it has been dealt devices.
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
		r.wishes, r.wants = append(r.wishes, &t.own), append(r.wants, 0)
	}
	for _, w := range r.wishes {
		if w.presses() {
			f.take(hostHolding{uid: w.UID})
		}
	}
	return f
}

// take takes something from a fund, whose part then counts for its user.
func (f *hostCapacity) take(t hostHolding) {
	if f.free.Add(t.HostResources, -1); !t.background {
		h := f.held[t.uid]
		h.Add(t.HostResources, 1)
		f.held[t.uid] = h
		_, f.users[t.uid] = f.priority(t.uid)
	}
}

// short reports of what too little is free for a job of a wish.
func (f *hostCapacity) short(w *Wish, need HostResources) (cores, memory bool) {
	all, weights := f.p.rules.Machine, 0.0
	for _, weight := range f.users {
		weights += weight
	}
	below := !w.Background && float64(f.held[w.UID].CPUs)*weights < float64(all.CPUs)*f.users[w.UID]
	return all.CPUs > 0 && need.CPUs > 0 && need.CPUs > f.free.CPUs && !below, all.RAM > 0 && need.RAM > 0 && need.RAM > f.free.RAM
}

// part returns how much of the host a user holds.
func (f *hostCapacity) part(uid int) float64 {
	h, all := f.held[uid], f.p.rules.Machine
	return max(float64(h.CPUs)/float64(max(all.CPUs, 1)), float64(h.RAM)/float64(max(all.RAM, 1)))
}

// reaches reports whether the deal gets to a job of w. If not, it returns who comes first, and
// whether he has waited so long that memory is kept for him, as devices would be gathered.
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

// next returns whose turn it is, up to w, and for which of his jobs. Jobs that lack devices have to wait for these first.
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
				a.RAM <= f.p.rules.Machine.RAM && (a.Min == 0 || f.t.suits(o, a)):
				return o, a, true
			case !cores && !memory && f.has(o) >= (f.dealt[a]+1)*a.Min:
				return o, a, false
			}
		}
	}
	return w, nil, false
}
