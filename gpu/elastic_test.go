package gpu

import (
	"fmt"
	"testing"
)

// Each case has an elastic job that holds some or all of the host's 4 devices.
func TestElasticJobReleasesDevicesForWaitingRuns(t *testing.T) {
	tests := []struct {
		name   string
		has    []int // 0 to 3 if nil
		least  int   // 1 if 0
		at     float64
		idle   bool
		own    bool // whether another job of this run waits
		except int
		claims func(p *Pool) []Claim
		wishes func(p *Pool) []Wish
		want   string
	}{
		{name: "half of them", want: "1 bob, 3 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "no more than requested", want: "1 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 1, 1)} }},
		{name: "two users", want: "1 bob, 2 carol", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1), wish(p, "carol", carol, 9, 1)} }},
		{name: "a job of two", want: "1 bob, 2 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 1, 2)} }},
		{name: "a job of four", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 1, 4)} }},
		{name: "too early", at: 6.9, wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "no run waits"},
		{name: "holds its minimum", least: 4, wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "one above its minimum", least: 3, want: "3 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "excepted user", except: bob, wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "a free device satisfies the wish", has: []int{1, 2, 3}, wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 1, 1)} }},
		{name: "one released, one free", has: []int{1, 2, 3}, want: "2 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 1, 2)} }},
		{name: "the waiting user holds as many", has: []int{0, 1}, claims: func(p *Pool) []Claim { return []Claim{held(p, 2, "bob", bob), held(p, 3, "bob", bob)} },
			wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "only one device suits", want: "0 bob", wishes: func(p *Pool) []Wish {
			w := wish(p, "bob", bob, 9, 1)
			w.Requests[0].UUIDs = w.Requests[0].UUIDs[:1]
			return []Wish{w}
		}},
		{name: "too little memory", wishes: func(p *Pool) []Wish {
			w := wish(p, "bob", bob, 9, 1)
			w.Requests[0].Memory = 30 * GiB
			return []Wish{w}
		}},
		{name: "background", wishes: func(p *Pool) []Wish {
			w := wish(p, "bob", bob, 9, 1)
			w.Background = true
			return []Wish{w}
		}},
		{name: "idle", idle: true, want: "1 bob, 2 bob, 3 bob", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "bob", bob, 9, 1)} }},
		{name: "idle, own run waits", idle: true, own: true, want: "1 me, 2 me, 3 me"},
		{name: "busy, own run waits", own: true},
		{name: "another run of this user", want: "1 mine, 3 mine", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "mine", me, 9, 1)} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := host(4)
			if !tt.own {
				p.Turns.own.Requests = nil
			}
			if tt.has == nil {
				tt.has = []int{0, 1, 2, 3}
			}
			holdAll(p, "a", tt.has...)
			var claims []Claim
			var wishes []Wish
			if tt.claims != nil {
				claims = tt.claims(p)
			}
			if tt.wishes != nil {
				wishes = tt.wishes(p)
			}
			for i := range wishes {
				wishes[i].Requests[0].req = nil
			}
			p.ObserveOthers(sec(2), claims, wishes)
			if tt.at == 0 {
				tt.at = 8
			}
			req := Request{Min: max(1, tt.least), Max: 4, Memory: 8 * GiB, MaxUtil: 30}
			before := fmt.Sprintf("%+v", p)
			got := ""
			for _, g := range p.Turns.Releasable(sec(tt.at), "a", req, tt.idle, func(uid int) bool { return uid == tt.except }) {
				if got != "" {
					got += ", "
				}
				got += p.Label(g.UUID) + " " + g.Turn.Run
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if after := fmt.Sprintf("%+v", p); after != before {
				t.Errorf("Releasable changed the pool:\n%s\n%s", before, after)
			}
		})
	}
}

// A job releases no device if it could then not restart on the remaining devices.
func TestJobKeepsWhatItNeedsToRestart(t *testing.T) {
	p := host(2)
	p.Turns.own.Requests = nil
	holdAll(p, "a", 0, 1)
	w := wish(p, "bob", bob, 1, 1)
	nobody := func(int) bool { return false }
	req := Request{Min: 1, Max: 2, Memory: 8 * GiB, MaxUtil: 100}
	p.ObserveOthers(sec(2), nil, []Wish{w})
	if got := p.Turns.Releasable(sec(8), "a", req, false, nobody); len(got) != 1 {
		t.Fatalf("got %+v, want one device", got)
	}
	// Carol's process fills the first device, so the job could not restart there.
	readings := []Reading{
		{UUID: p.devs[0].UUID, Total: 24 * GiB, Free: 2 * GiB, Used: 22 * GiB, Listed: true, Processes: []Process{{PID: 1, UID: carol, Memory: 22 * GiB}}},
		{UUID: p.devs[1].UUID, Total: 24 * GiB, Free: 24 * GiB, Listed: true},
	}
	p.Observe(Observation{At: sec(9), Readings: readings})
	if got := p.Turns.Releasable(sec(9), "a", req, false, nobody); len(got) != 0 {
		t.Errorf("got %+v, want none", got)
	}
}

func TestBusyAveragesUtilization(t *testing.T) {
	p := host(2)
	p.rules.Poll = sec(5)
	ids := []UUID{p.devs[0].UUID, p.devs[1].UUID}
	observe := func(at float64, from int, percents ...int) {
		s := Observation{At: sec(at)}
		for i, id := range ids {
			r := Reading{UUID: id, Total: 24 * GiB, Free: 24 * GiB, Listed: true}
			for n := from; n <= int(at); n += 5 {
				r.Samples = append(r.Samples, Sample{At: sec(float64(n)), Percent: percents[i]})
			}
			s.Readings = append(s.Readings, r)
		}
		p.Observe(s)
	}
	check := func(name string, at, since float64, want int, known bool) {
		t.Helper()
		if got, ok := p.Busy(sec(at), sec(since), ids); got != want || ok != known {
			t.Errorf("%s: got %d, %v; want %d, %v", name, got, ok, want, known)
		}
	}
	check("never watched", 10, 5, 0, false)
	observe(100, 40, 90, 70)
	check("average of both devices", 100, 40, 80, true)
	check("watched for a shorter time", 100, 30, 0, false)
	observe(130, 105, 0, 0)
	check("busy half of the time", 130, 70, 40, true)
	check("idle lately", 130, 100, 0, true)
	check("last watched too long ago", 300, 240, 0, false)
	observe(400, 380, 90, 90)
	check("interrupted", 400, 340, 0, false)
	if _, ok := p.Busy(sec(400), sec(390), []UUID{"GPU-nobody"}); ok {
		t.Error("Busy knows a device that does not exist")
	}
}
