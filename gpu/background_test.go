package gpu

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// backgroundClaims returns a background run's claims on devices, which began n minutes after noon.
func backgroundClaims(p *Pool, run string, n int, devs ...int) (claims []Claim) {
	for _, i := range devs {
		c := held(p, i, run, dave)
		c.Background, c.Attempt, c.Since = true, run+fmt.Sprint(n), noon.Add(time.Duration(n)*time.Minute)
		claims = append(claims, c)
	}
	return claims
}

func TestBackgroundJobsStopForForegroundWish(t *testing.T) {
	both := func(a, b []Claim) []Claim { return append(a, b...) }
	tests := []struct {
		name   string
		claims func(p *Pool) []Claim
		wish   func(p *Pool, w *Wish)
		at     float64 // seconds since the wish; 5 if 0
		want   string
	}{
		{name: "too early", at: 4.9},
		{name: "own job, started last", want: "ours"},
		{name: "another run's job, started later", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 9, 1) }, want: "dave9"},
		{name: "another run's job, started earlier", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 1, 1) }, want: "ours"},
		{name: "the last job on a suitable device", want: "ours", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 9, 1) },
			wish: func(_ *Pool, w *Wish) { w.Requests[0].UUIDs = w.Requests[0].UUIDs[:1] }},
		{name: "no suitable device", wish: func(_ *Pool, w *Wish) { w.Requests[0].Memory = 30 * GiB }},
		{name: "free devices satisfy it", claims: func(*Pool) []Claim { return []Claim{} }},
		{name: "free devices do not satisfy all of it", claims: func(*Pool) []Claim { return []Claim{} }, wish: func(_ *Pool, w *Wish) { w.Requests[0].Jobs = 3 }, want: "ours"},
		{name: "background never stops background", wish: func(_ *Pool, w *Wish) { w.Background = true }},
		{name: "the waiting run's limits are reached", wish: func(_ *Pool, w *Wish) { w.Requests[0].Room = 0 }},
		{name: "a device is already offered", claims: func(p *Pool) []Claim {
			c := held(p, 1, "carol", carol)
			c.To = "bob"
			return append(backgroundClaims(p, "dave", 9, 2), c)
		}},
		{name: "the waiting run has claimed a device since its wish", claims: func(p *Pool) []Claim {
			c := held(p, 1, "bob", bob)
			c.Since = noon.Add(time.Hour)
			return append(backgroundClaims(p, "dave", 9, 2), c)
		}},
		{name: "two devices needed, held by two jobs", want: "dave9", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 9, 1) }, wish: func(_ *Pool, w *Wish) { w.Requests[0].Min = 2 }},
		{name: "two devices needed, held by one job", want: "dave9", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 9, 1, 2) }, wish: func(_ *Pool, w *Wish) { w.Requests[0].Min = 2 }},
		{name: "more devices needed than background jobs hold", claims: func(p *Pool) []Claim { return backgroundClaims(p, "dave", 9, 1) }, wish: func(_ *Pool, w *Wish) { w.Requests[0].Min = 3 }},
		{name: "foreground job on the same device", want: "ours", claims: func(p *Pool) []Claim {
			stays, goes := held(p, 1, "carol", carol), backgroundClaims(p, "dave", 9, 1)
			stays.Share, goes[0].Share = true, true
			return append(goes, stays)
		}},
		{name: "several background jobs on one device", want: "erin9", claims: func(p *Pool) []Claim {
			return both(backgroundClaims(p, "dave", 8, 1), backgroundClaims(p, "erin", 9, 1))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := host(3)
			p.rules.Background = true
			p.Turns.own = Wish{}
			p.Hold("ours", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 8 * GiB, Since: noon.Add(5 * time.Minute), Background: true})
			claims := []Claim{held(p, 1, "carol", carol), held(p, 2, "carol", carol)}
			if tt.claims != nil {
				if claims = tt.claims(p); len(claims) > 0 && !slices.ContainsFunc(claims, func(c Claim) bool { return c.UUID == "GPU-2" }) {
					claims = append(claims, held(p, 2, "carol", carol))
				}
			}
			w := wish(p, "bob", bob, 1, 1)
			if tt.wish != nil {
				tt.wish(p, &w)
			}
			p.ObserveOthers(sec(100), claims, []Wish{w})
			p.ObserveOthers(sec(102), claims, []Wish{w})
			at := tt.at
			if at == 0 {
				at = 5
			}
			got, why, _ := p.Turns.NextPreempted(sec(100 + at))
			if got != tt.want || (why != "") != (got != "") {
				t.Errorf("%q must stop (%q), want %q", got, why, tt.want)
			}
		})
	}
}

// If a job does not stop within a minute, the next one must. A skipped user's wish stops no job.
func TestNextJobStopsIfOneHangs(t *testing.T) {
	p := host(2)
	p.rules.Background = true
	p.Turns.own = Wish{}
	p.Hold("ours", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 8 * GiB, Since: noon, Background: true})
	p.ObserveOthers(sec(100), backgroundClaims(p, "dave", 9, 1), []Wish{wish(p, "bob", bob, 2, 1)})
	for _, tt := range []struct {
		at   float64
		want string
		next time.Duration
	}{{104, "", sec(105)}, {105, "dave9", sec(165)}, {164, "dave9", sec(165)}, {165, "", sec(166)}, {166, "ours", sec(226)}, {226, "", 0}} {
		if got, _, next := p.Turns.NextPreempted(sec(tt.at)); got != tt.want || next != tt.next {
			t.Errorf("at %v s, %q must stop until %v, want %q, %v", tt.at, got, next, tt.want, tt.next)
		}
	}
	p.Turns.giving = preemption{}
	p.Turns.Skip(sec(300), Turn{Run: "bob", UID: bob})
	if got, _, next := p.Turns.NextPreempted(sec(359)); got != "" || next != sec(360) {
		t.Errorf("%q must stop for a skipped user, until %v", got, next)
	}
	if got, _, _ := p.Turns.NextPreempted(sec(360)); got != "dave9" {
		t.Errorf("%q must stop, want dave9", got)
	}
	// Bob's run has a new wish, so the courtesy period starts over.
	w := wish(p, "bob", bob, 2, 1)
	w.Since = noon.Add(time.Minute)
	p.ObserveOthers(sec(400), backgroundClaims(p, "dave", 9, 1), []Wish{w})
	if got, _, _ := p.Turns.NextPreempted(sec(404)); got != "" {
		t.Errorf("%q must stop, want none", got)
	}
}

// When the waiting run takes the device of the job that stopped, no other job has to stop, even if the
// claims were read at a moment when the offer was gone and the new claim was not listed yet.
func TestNoSecondJobStopsWhileADeviceIsTaken(t *testing.T) {
	p := host(2)
	p.rules.Background = true
	p.Turns.own = Wish{}
	p.Hold("ours", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 8 * GiB, Since: noon, Background: true})
	bobs, stopped := wish(p, "bob", bob, 1, 1), backgroundClaims(p, "dave", 9, 1)
	stopped[0].UID = bob // a background run of his own
	taken := held(p, 1, "bob", bob)
	taken.Since = bobs.Since.Add(time.Minute)
	p.devs[1].procs = []Process{{PID: 7, UID: bob, Memory: 8 * GiB}} // of that run's job, as in the latest reading
	for _, tt := range []struct {
		name   string
		at     float64
		claims []Claim
		want   string
	}{
		{"the wish appears", 100, stopped, ""},
		{"the other job must stop", 105, stopped, "dave9"},
		{"its claim is gone", 106, nil, ""},
		{"bob's run has the device", 106.5, []Claim{taken}, ""},
		{"long after", 120, []Claim{taken}, ""},
	} {
		p.ObserveOthers(sec(tt.at), tt.claims, []Wish{bobs})
		if got, _, _ := p.Turns.NextPreempted(sec(tt.at)); got != tt.want {
			t.Errorf("%s: %q must stop, want %q", tt.name, got, tt.want)
		}
	}
	p.ObserveOthers(sec(130), stopped, []Wish{bobs})
	if got, _, next := p.Turns.NextPreempted(sec(130)); got != "dave9" {
		t.Errorf("%q must stop, until %v, want dave9", got, next)
	}
	p.ObserveOthers(sec(131), nil, []Wish{bobs})
	for _, at := range []float64{131, 132} {
		if got, _, _ := p.Turns.NextPreempted(sec(at)); (got == "ours") != (at == 132) {
			t.Errorf("bob's run has not taken the device at %v s: %q must stop, want ours after a second", at, got)
		}
	}
}

// Devices that background runs hold count neither toward their users' loads nor as use.
func TestBackgroundRunsDoNotCountAsLoad(t *testing.T) {
	p := host(4)
	p.rules.Background = true
	holdAll(p, "a", 0, 1)
	p.observeClaims(0, backgroundClaims(p, "dave", 1, 2), nil)
	r := p.Turns.newRound(sec(2))
	if mine, his := r.load(me, nil), r.load(dave, nil); mine != 0 || his != 0 {
		t.Errorf("loads are %v and %v, want 0", mine, his)
	}
	p.AdvanceTo(sec(2))
	p.AdvanceTo(sec(200))
	if p.Used(me) != 0 || p.Used(dave) != 0 {
		t.Errorf("used %v and %v GPU seconds, want 0", p.Used(me), p.Used(dave))
	}
}
