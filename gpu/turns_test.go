package gpu

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const carol, dave = 1002, 1003

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// host returns a pool of n idle devices that run "me" has read.
func host(n int) *Pool {
	r := anyone()
	r.Run = "me"
	p := NewPool(some(n, 24*GiB), r)
	see(p, sec(1), nil)
	p.Turns.own = wish(p, "me", me, 9, 1)
	return p
}

// wish returns the wish of a user's run for jobs that need gpus devices each.
func wish(p *Pool, run string, uid, jobs, gpus int) Wish {
	w := Wish{Run: run, UID: uid, User: run, Since: noon, Requests: []WishRequest{{Jobs: jobs, Min: gpus, Memory: 8 * GiB, MaxUtil: 30, Room: len(p.devs)}}}
	for _, d := range p.all() {
		w.Requests[0].UUIDs = append(w.Requests[0].UUIDs, d.UUID)
	}
	if uid == me {
		w.Requests[0].req = &Request{Min: gpus, Max: gpus, Memory: 8 * GiB, MaxUtil: 30}
	}
	return w
}

// weighing returns host rules with these priorities for users.
func weighing(priorities map[int]int) *HostRules {
	h := NoHostRules()
	for uid, k := range priorities {
		h.Users = append(h.Users, UserEntry{Key: "user", UIDs: []int{uid}, Priority: &k})
	}
	return h
}

// held returns a claim of a run on the i-th device.
func held(p *Pool, i int, run string, uid int) Claim {
	return Claim{UUID: p.devs[i].UUID, User: run, Job: "job", Attempt: run + string(rune('0'+i)), Memory: 8 * GiB, UID: uid, Run: run}
}

func holdAll(p *Pool, name string, devs ...int) {
	g := Grant{Memory: 8 * GiB}
	for _, i := range devs {
		g.UUIDs = append(g.UUIDs, p.devs[i].UUID)
	}
	p.Hold(name, g)
}

// leave ends an attempt's job.
func leave(p *Pool, now time.Duration, name string) { p.Release(now, name) }

func next(p *Pool, now time.Duration, i int) string {
	t, ok := p.Turns.Next(now, p.devs[i].UUID)
	if !ok {
		return ""
	}
	return t.Run
}

func TestNextFollowsTheQueue(t *testing.T) {
	tests := []struct {
		name string
		do   func(p *Pool) []Wish
		want string
		why  string
	}{
		{name: "no other run waits", want: "me", do: func(*Pool) []Wish { return nil }},
		{name: "no run waits", do: func(p *Pool) []Wish { p.Turns.own.Requests = nil; return nil }},
		{name: "holds less", want: "bob", why: "offered to bob, who holds 0 GPUs and has been waiting since 12:00; you hold 2 GPUs", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "holds as much, used less", want: "bob", do: func(p *Pool) []Wish {
			p.usage.add(me, 10)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "offers by this run count as held", want: "carol", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			leave(p, sec(2), "b")
			p.Offer("GPU-1", "bob")
			return []Wish{wish(p, "bob", bob, 3, 1), wish(p, "carol", carol, 3, 1)}
		}},
		{name: "offers by other runs count as held", want: "carol", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1)
			c := held(p, 2, "dave", dave)
			c.To = "bob"
			p.observeClaims(0, []Claim{c}, nil)
			return []Wish{wish(p, "bob", bob, 3, 1), wish(p, "carol", carol, 3, 1)}
		}},
		{name: "offered half of what the job needs", want: "bob", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			leave(p, sec(2), "b")
			p.Offer("GPU-1", "bob")
			return []Wish{wish(p, "bob", bob, 3, 2), wish(p, "carol", carol, 3, 1)}
		}},
		{name: "waits longer", want: "bob", do: func(p *Pool) []Wish {
			w := wish(p, "bob", bob, 1, 1)
			w.Since = noon.Add(-time.Minute)
			return []Wish{w}
		}},
		{name: "waits less", want: "me", do: func(p *Pool) []Wish {
			w := wish(p, "bob", bob, 1, 1)
			w.Since = noon.Add(time.Minute)
			return []Wish{w}
		}},
		{name: "weight", want: "me", do: func(p *Pool) []Wish { // 2/3 < 1
			p.rules.Host = weighing(map[int]int{me: 3})
			holdAll(p, "b", 1, 2)
			p.observeClaims(0, []Claim{held(p, 3, "bob", bob)}, nil)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "negative priority", want: "bob", do: func(p *Pool) []Wish {
			p.rules.Host = weighing(map[int]int{bob: -1, me: 0})
			p.observeClaims(0, []Claim{held(p, 1, "bob", bob), held(p, 2, "bob", bob), held(p, 3, "bob", bob)}, nil)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "priority 0 before the others", want: "bob", do: func(p *Pool) []Wish {
			p.rules.Host = weighing(map[int]int{bob: 0})
			p.observeClaims(0, []Claim{held(p, 1, "bob", bob)}, nil)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "fifo", want: "me", do: func(p *Pool) []Wish {
			p.rules.Host.Schedule = FIFO
			holdAll(p, "b", 1, 2)
			w := wish(p, "bob", bob, 1, 1)
			w.Since = noon.Add(time.Minute)
			return []Wish{w}
		}},
		{name: "background comes last", want: "me", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			w := wish(p, "bob", bob, 1, 1)
			w.Background = true
			return []Wish{w}
		}},
		{name: "a job that does not fit is skipped", want: "carol", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			w := wish(p, "bob", bob, 1, 1)
			w.Requests[0].Memory = 40 * GiB
			return []Wish{w, wish(p, "carol", carol, 1, 1)}
		}},
		{name: "closed by the host's hours", do: func(p *Pool) []Wish {
			p.rules.Host.At = noon
			night, _ := ParseHours("20:00-08:00")
			p.rules.Host.Hours = []DeviceHours{{Devices: []string{"0"}, Hours: night}}
			holdAll(p, "b", 1, 2)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "the run may not use the device", want: "me", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			w := wish(p, "bob", bob, 1, 1)
			w.Requests[0].UUIDs = w.Requests[0].UUIDs[1:]
			return []Wish{w}
		}},
		{name: "the run's limits are reached", want: "me", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			w := wish(p, "bob", bob, 1, 1)
			w.Requests[0].Room = 0
			return []Wish{w}
		}},
		{name: "two devices, one other free", want: "bob", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			return []Wish{wish(p, "bob", bob, 1, 2)}
		}},
		{name: "two devices, no other free", want: "me", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2, 3)
			return []Wish{wish(p, "bob", bob, 1, 2)}
		}},
		{name: "another run offers all that is wanted", want: "me", do: func(p *Pool) []Wish {
			c := held(p, 1, "carol", carol)
			c.To = "bob"
			p.observeClaims(0, []Claim{c}, nil)
			holdAll(p, "b", 2, 3)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "this run offers all that is wanted", want: "me", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			p.Offer("GPU-3", "bob")
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
		{name: "another user's claim with the run's name", want: "bob 1", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			p.observeClaims(0, []Claim{held(p, 3, "bob 1", carol)}, nil)
			second := wish(p, "bob 2", bob, 1, 1)
			second.Since = noon.Add(time.Minute)
			return []Wish{wish(p, "bob 1", bob, 1, 1), second}
		}},
		{name: "two runs of one user that report different use", want: "bob 2", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			p.observeClaims(0, []Claim{held(p, 3, "bob 1", bob)}, nil)
			first, second := wish(p, "bob 1", bob, 1, 1), wish(p, "bob 2", bob, 1, 1)
			first.Used, second.Used, second.Since = 1, 2, noon.Add(time.Minute)
			return []Wish{first, second}
		}},
		{name: "two runs of one user", want: "bob 2", do: func(p *Pool) []Wish {
			holdAll(p, "b", 1, 2)
			p.observeClaims(0, []Claim{held(p, 3, "bob 1", bob)}, nil)
			first, second := wish(p, "bob 1", bob, 1, 1), wish(p, "bob 2", bob, 1, 1)
			second.Since = noon.Add(time.Minute)
			return []Wish{first, second}
		}},
		{name: "a program outside gpurun counts as held", want: "me", do: func(p *Pool) []Wish {
			see(p, sec(2), func(i int, r *Reading) {
				if i > 1 {
					with(r, bobs(24*GiB))
				}
			})
			holdAll(p, "b", 1)
			return []Wish{wish(p, "bob", bob, 1, 1)}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := host(4)
			holdAll(p, "a", 0)
			p.Turns.others = tt.do(p)
			leave(p, sec(3), "a")
			if got := next(p, sec(3), 0); got != tt.want {
				t.Errorf("the turn goes to %q, want %q", got, tt.want)
			}
			if turn, _ := p.Turns.Next(sec(3), p.devs[0].UUID); turn.Why != tt.why && tt.why != "" {
				t.Errorf("why: %q, want %q", turn.Why, tt.why)
			}
		})
	}
}

// For the courtesy period, this run leaves a free device to the run whose turn it is.
func TestOtherRunsTurnsEndAfterAWhile(t *testing.T) {
	p := host(4)
	holdAll(p, "a", 0)
	p.Turns.others = []Wish{wish(p, "bob", bob, 9, 1)}
	left := func(now time.Duration) string {
		ids, _ := p.Turns.Theirs(now)
		var s []string
		for _, id := range ids {
			s = append(s, p.Label(id))
		}
		return strings.Join(s, " ")
	}
	if got := left(sec(2)); got != "1 3" { // bob, me, bob: two each
		t.Errorf("bob's are %q", got)
	}
	if _, next := p.Turns.Theirs(sec(3)); next != sec(7) {
		t.Errorf("left until %v, want %v", next, sec(7))
	}
	if got := left(sec(7)); got != "" {
		t.Errorf("bob took nothing in time, but %q are still left to him", got)
	}
	// Bob took the devices and released them, so he gets another courtesy period.
	p.observeClaims(sec(8), []Claim{held(p, 1, "bob", bob), held(p, 3, "bob", bob)}, nil)
	if got := left(sec(8)); got != "" {
		t.Errorf("bob holds the devices, but %q are left to him", got)
	}
	p.observeClaims(sec(9), []Claim{}, nil)
	if got := left(sec(9)); got != "1 3" {
		t.Errorf("bob's are %q", got)
	}
	// A job on four devices gets all of them or none.
	p = host(4)
	p.Turns.others = []Wish{wish(p, "bob", bob, 1, 4)}
	p.usage.add(me, 1)
	if got := left(sec(2)); got != "0 1 2 3" {
		t.Errorf("bob's are %q", got)
	}
	holdAll(p, "a", 2)
	if got := left(sec(2)); got != "" {
		t.Errorf("bob cannot start, but %q are left to him", got)
	}
}

func TestSkippedUserGetsNoOffers(t *testing.T) {
	p := host(2)
	holdAll(p, "a", 0)
	holdAll(p, "b", 1)
	p.Turns.others = []Wish{wish(p, "bob", bob, 1, 1)}
	leave(p, sec(2), "a")
	for i, pause := range []float64{60, 120, 240} {
		now := sec(1000 * float64(i+1))
		if got := next(p, now, 0); got != "bob" {
			t.Fatalf("%d: the turn goes to %q, want bob", i, got)
		}
		p.Turns.Skip(now, Turn{Run: "bob", UID: bob})
		p.Turns.Skip(now, Turn{Run: "bob", UID: bob}) // for another device, at the same time
		if got := next(p, now+sec(pause-1), 0); got != "me" {
			t.Errorf("%d: bob is skipped, but the turn goes to %q", i, got)
		}
	}
	for i := range 10 {
		p.Turns.Skip(sec(4000*float64(i+1)), Turn{Run: "bob", UID: bob})
	}
	if got := next(p, sec(40000+3599), 0); got != "me" {
		t.Errorf("before an hour is over, the turn goes to %q, want me", got)
	}
	if got := next(p, sec(40000+3600), 0); got != "bob" {
		t.Errorf("after an hour, the turn goes to %q, want bob", got)
	}
	// A user who takes a device gets offers again.
	p.Turns.Skip(sec(48000), Turn{Run: "bob", UID: bob})
	p.Yield([]UUID{"GPU-0"})
	p.observeClaims(sec(48001), []Claim{held(p, 0, "bob", bob)}, nil)
	p.observeClaims(sec(48002), []Claim{}, nil)
	if got := next(p, sec(48003), 0); got != "bob" {
		t.Errorf("bob took a device, but the turn goes to %q", got)
	}
}

// If one run of a user ignores offers, the user's other runs come first once the user is no longer
// skipped. Hand-overs between those runs' jobs do not end the skip.
func TestOtherRunsOfSkippedUserAreServed(t *testing.T) {
	p := host(4)
	holdAll(p, "a", 0)
	holdAll(p, "b", 1, 2)
	active, hung, fresh := wish(p, "active", bob, 9, 1), wish(p, "hung", bob, 1, 1), wish(p, "fresh", bob, 1, 1)
	active.Since, fresh.Since = noon.Add(time.Minute), noon.Add(time.Hour)
	p.Turns.others = []Wish{active, hung}
	first := held(p, 3, "active", bob)
	p.observeClaims(sec(1), []Claim{first}, nil)
	leave(p, sec(2), "a")
	if got := next(p, sec(2), 0); got != "hung" {
		t.Fatalf("the turn goes to %q, want the run that holds nothing", got)
	}
	p.Turns.Skip(sec(7), Turn{Run: "hung", UID: bob})
	second := first
	second.Attempt = "next"
	p.observeClaims(sec(8), []Claim{second}, nil)
	if got := next(p, sec(8), 0); got != "me" {
		t.Errorf("a hand-over of one run ended the skip: the turn goes to %q", got)
	}
	if got := next(p, sec(67), 0); got != "active" {
		t.Errorf("a minute later, the turn goes to %q, want the run that did not ignore an offer", got)
	}
	p.Turns.others = append(p.Turns.others, fresh)
	if got := next(p, sec(67), 0); got != "fresh" {
		t.Errorf("the turn goes to %q, want the new run", got)
	}
	p.Yield([]UUID{"GPU-0"})
	p.observeClaims(sec(68), []Claim{second, held(p, 0, "hung", bob)}, nil)
	p.observeClaims(sec(69), []Claim{second}, nil)
	if got := next(p, sec(69), 0); got != "hung" {
		t.Errorf("hung has taken a device since, but the turn goes to %q", got)
	}
}

// An offer counts as taken when its run has claimed the device, even if that run has since offered
// the device itself. If another run has claimed the device, the offer was not ignored.
func TestOfferEndsWhenClaimed(t *testing.T) {
	turn := Turn{Run: "bob", UID: bob}
	tests := []struct {
		name         string
		claim        func(c *Claim)
		took, barred bool // barred: another run's claim is in the way
	}{
		{"claimed", func(*Claim) {}, true, true},
		{"offered back since", func(c *Claim) { c.To = "me" }, true, false},
		{"offered to another run since", func(c *Claim) { c.To = "carol" }, true, true},
		{"claimed by another run", func(c *Claim) { c.Run, c.UID = "carol", carol }, false, true},
		{"claimed another device", func(c *Claim) { c.UUID = "GPU-1" }, false, false},
	}
	for _, tt := range tests {
		p := host(2)
		holdAll(p, "a", 0)
		leave(p, sec(2), "a")
		p.Offer("GPU-0", "bob")
		c := held(p, 0, "bob", bob)
		tt.claim(&c)
		p.ObserveOthers(sec(3), []Claim{c}, nil)
		if took, barred := p.WasTaken("GPU-0", turn), p.ClaimedByOther("GPU-0"); took != tt.took || barred != tt.barred {
			t.Errorf("%s: took %v, barred %v, want %v, %v", tt.name, took, barred, tt.took, tt.barred)
		}
	}
}

// A claim by the run that was offered a device ends the offer for all runs: the offering run may be
// stopped, and then cannot end its own claim.
func TestClaimEndsOfferOfStoppedRun(t *testing.T) {
	p := host(1)
	stopped, taker := held(p, 0, "carol", carol), held(p, 0, "bob", bob)
	stopped.To, taker.Since = "bob", noon
	p.ObserveOthers(sec(2), []Claim{stopped, taker}, nil)
	if n := len(p.devs[0].claims); n != 1 || p.devs[0].claims[0].Run != "bob" {
		t.Errorf("%d claims count, want bob's alone", n)
	}
	// Bob's job has ended, and bob offers the device to this run.
	taker.To = "me"
	p.ObserveOthers(sec(3), []Claim{stopped, taker}, nil)
	if n := len(p.devs[0].claims); n != 0 || len(p.Offered()) != 1 {
		t.Errorf("%d claims count, %d offers, want 0 and 1", n, len(p.Offered()))
	}
}

// A device offered to this run counts like one that its own job has just released.
func TestOfferedDeviceCountsAsJustReleased(t *testing.T) {
	p := host(2)
	see(p, sec(2), func(i int, r *Reading) { r.Samples = busySamples(sec(2), 90); with(r, bobs(20*GiB)) })
	c := held(p, 0, "bob", bob)
	c.To = "me"
	p.ObserveOthers(sec(3), []Claim{c}, nil)
	if got := p.Offered(); !slices.Equal(got, []UUID{"GPU-0"}) {
		t.Fatalf("offered: %v", got)
	}
	if _, ok := p.Find(sec(3), one(8*GiB), nil); ok {
		t.Error("granted before its memory is read")
	}
	r := Reading{UUID: "GPU-0", Total: 24 * GiB, Free: 24 * GiB, Listed: true, Samples: busySamples(sec(3), 90)}
	p.Observe(Observation{At: sec(3), Readings: []Reading{r}, Claims: []Claim{c}})
	g, ok := p.Find(sec(3), one(8*GiB), nil)
	if !ok || g.UUIDs[0] != "GPU-0" {
		t.Fatalf("granted %v %v: %v", g, ok, p.Admit(sec(3), one(8*GiB))[0])
	}
	if why := p.Conflict(sec(3), g, []Claim{c}); why != "" {
		t.Error("an offer conflicts with the claim that takes it:", why)
	}
	c.To = "carol"
	p.ObserveOthers(sec(4), []Claim{c}, nil)
	if v := p.Admit(sec(4), one(8*GiB))[0]; v.OK || len(p.Offered()) > 0 {
		t.Errorf("offered to carol, but got %+v and %q", v, p.Offered())
	}
}

// Past use is halved every day, and a background claim does not count.
func TestUseIsHalvedEveryDay(t *testing.T) {
	p := host(4)
	p.AdvanceTo(sec(1))
	holdAll(p, "a", 0, 1)
	c, offer, background := held(p, 2, "bob", bob), held(p, 3, "carol", carol), held(p, 3, "dave", dave)
	offer.To, background.Background, background.Share, offer.Share = "bob", true, true, true
	p.observeClaims(sec(1), []Claim{c, offer, background}, nil)
	p.AdvanceTo(sec(101))
	near := func(uid int, want float64) {
		t.Helper()
		if got := p.Used(uid); got < want*0.99 || got > want*1.01 {
			t.Errorf("user %d used %v s, want %v", uid, got, want)
		}
	}
	near(me, 200)
	near(bob, 100)
	near(carol, 0)
	near(dave, 0)
	p.Undo("a")
	p.observeClaims(sec(101), []Claim{}, nil)
	p.AdvanceTo(sec(101) + 24*time.Hour)
	near(me, 100)
	near(bob, 50)
}

// A user's device counts once while one claim replaces another. This run's own device also counts
// between two attempts. Otherwise, each of two users would conclude that the other has used more.
func TestHandOverCountsDeviceOnce(t *testing.T) {
	p := host(2)
	p.AdvanceTo(sec(1))
	holdAll(p, "a", 0)
	leave(p, sec(1), "a")
	old, next := held(p, 1, "bob", bob), held(p, 1, "bob", bob)
	next.Attempt = "next"
	p.observeClaims(sec(1), []Claim{old, next}, nil)
	p.AdvanceTo(sec(11))
	if mine, his := p.Used(me), p.Used(bob); mine != 10 || his != 10 {
		t.Errorf("used: own %v s, bob %v s, want 10 each", mine, his)
	}
	p.Offer("GPU-0", "bob")
	p.AdvanceTo(sec(21))
	if mine := p.Used(me); mine > 10 {
		t.Errorf("an offered device counts as used: %v s, want 10", mine)
	}
}

// Devices in use may become free, so only limits reduce the room of a request.
func TestRequestRoomCountsOnlyLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(p *Pool)
		want int
	}{
		{"no limits", func(*Pool) {}, 2},
		{"max_gpus", func(p *Pool) { p.rules.MaxGPUs = 2 }, 0},
		{"host rules", func(p *Pool) { p.rules.Host.MaxGPUsPerUser = 2 }, 0},
	} {
		p := host(2)
		holdAll(p, "a", 0)
		holdAll(p, "b", 1)
		tt.do(p)
		if got := p.WishRequest(sec(2), one(GiB), 5, nil).Room; got != tt.want {
			t.Errorf("%s: room for %d, want %d", tt.name, got, tt.want)
		}
	}
}

// An offered device that this run has taken counts as its own, even while the offer is still
// visible.
func TestTakenOfferCountsAsOwn(t *testing.T) {
	p := host(1)
	c := held(p, 0, "carol", carol)
	c.To = "me"
	p.ObserveOthers(sec(2), []Claim{c}, []Wish{wish(p, "bob", bob, 1, 1)})
	holdAll(p, "a", 0)
	p.ObserveOthers(sec(3), []Claim{c}, p.Turns.others)
	p.usage.add(me, 1)
	leave(p, sec(4), "a")
	if got := next(p, sec(4), 0); got != "bob" {
		t.Errorf("the turn goes to %q, want bob", got)
	}
}

// Renewed must report a turn whose run stopped waiting without holding anything, while another run
// of its user waits.
func TestRenewedReportsNewWishOfSameUser(t *testing.T) {
	p := host(2)
	turn := Turn{Run: "one", UID: bob}
	one, two, other := wish(p, "one", bob, 1, 1), wish(p, "two", bob, 1, 1), wish(p, "other", carol, 1, 1)
	for _, tt := range []struct {
		wishes []Wish
		claims []Claim
		want   bool
	}{
		{[]Wish{one, two}, nil, false},
		{[]Wish{other}, nil, false},
		{[]Wish{other, two}, nil, true},
		{[]Wish{two}, []Claim{held(p, 1, "one", bob)}, false},
	} {
		if p.ObserveOthers(sec(3), tt.claims, tt.wishes); p.Turns.Renewed(turn) != tt.want {
			t.Errorf("%d wishes, %d claims: Renewed is not %v", len(tt.wishes), len(tt.claims), tt.want)
		}
	}
}

// Other runs offer devices, and stop background jobs, for what a wish asks: so it asks for no device
// that its run could not take now, and for the memory of a part of a device.
func TestWishAsksForWhatItsRunCanTake(t *testing.T) {
	p := NewPool(some(3, 24*GiB), anyone())
	claims := []Claim{{UUID: "GPU-2", UID: bob, User: "bob"}}
	for at := range 61 {
		snap := Observation{At: sec(float64(at)), Claims: claims}
		for i, d := range p.all() {
			r := idle(d, snap.At)
			if i > 0 { // on GPU 1 without a claim
				with(&r, bobs(4*GiB))
			}
			snap.Readings = append(snap.Readings, r)
		}
		p.Observe(snap)
		if at != 10 && at != 60 {
			continue
		}
		want := []UUID{"GPU-0", "GPU-1", "GPU-2"}
		if at == 10 {
			want = []UUID{"GPU-0", "GPU-2"}
		}
		if got := p.WishRequest(snap.At, one(GiB), 5, nil).UUIDs; !slices.Equal(got, want) {
			t.Errorf("after %d s, the run wishes for %v, want %v", at, got, want)
		}
		part := Request{Min: 1, Max: 1, Share: true, Slots: 2, Part: true, MaxUtil: 100}
		if got := p.WishRequest(snap.At, part, 5, nil).Memory; got < 11*GiB || got > 12*GiB {
			t.Errorf("a half of a device with 24 GiB is %v", got)
		}
	}
}
