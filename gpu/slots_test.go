package gpu

import (
	"fmt"
	"testing"
)

// part returns a request for 1/n of a device.
func part(n int) Request {
	return Request{Min: 1, Max: 1, MaxUtil: 100, Share: true, Slots: n, Part: true}
}

func TestSlotsLimitJobsPerDevice(t *testing.T) {
	shared := func(slots int) Request {
		return Request{Min: 1, Max: 1, Memory: GiB, MaxUtil: 100, Share: true, Slots: slots}
	}
	claim := func(slots int, share bool) Claim {
		return Claim{UUID: "GPU-0", User: "alice", Job: "hers", Attempt: "c", Memory: GiB, Share: share, Slots: slots}
	}
	tests := []struct {
		name   string
		holds  []Grant
		claims []Claim
		req    Request
		want   string // reason; "" if admitted
		ours   bool
	}{
		{name: "the first", req: shared(1)},
		{name: "the second of two", holds: []Grant{{Slots: 2, Share: true}}, req: shared(2)},
		{name: "no third", holds: []Grant{{Slots: 2, Share: true}, {Slots: 2, Share: true}}, req: shared(2), want: "2 jobs run on it (slots: 2)", ours: true},
		{name: "its own slots count among those of others", holds: []Grant{{Share: true}}, req: shared(1), want: "1 job runs on it (slots: 1)", ours: true},
		{name: "and theirs for it", holds: []Grant{{Slots: 1, Share: true}}, req: shared(0), want: "1 job runs on it (slots: 1)", ours: true},
		{name: "as far as memory goes", holds: []Grant{{Share: true}, {Share: true}, {Share: true}}, req: shared(0)},
		{name: "hers are the smaller", claims: []Claim{claim(1, true)}, req: shared(3), want: "1 job runs on it (slots: 1 of alice)"},
		{name: "ours are the smaller", claims: []Claim{claim(3, true)}, req: shared(1), want: "1 job runs on it (slots: 1)"},
		{name: "hers leave one", claims: []Claim{claim(2, true)}, req: shared(3)},
		{name: "hers and ours together", holds: []Grant{{Slots: 3, Share: true}}, claims: []Claim{claim(2, true)}, req: shared(3),
			want: "2 jobs run on it (slots: 2 of alice)", ours: true},
		{name: "not even without ours", holds: []Grant{{Slots: 3, Share: true}}, claims: []Claim{claim(1, true)}, req: shared(3),
			want: "2 jobs run on it (slots: 1 of alice)"},
		{name: "not beside one that does not share", claims: []Claim{claim(0, false)}, req: shared(3), want: "held by alice, hers"},
		{name: "nor one of ours", holds: []Grant{{}}, req: shared(3), want: "held by a job of this run", ours: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(1, 24*GiB), anyone())
			see(p, sec(1), nil)
			for i, g := range tt.holds {
				g.UUIDs = []UUID{"GPU-0"}
				p.Hold(fmt.Sprint(i), g)
			}
			p.Observe(Observation{At: sec(1), Claims: append([]Claim{}, tt.claims...)})
			if v := p.Admit(sec(1), tt.req)[0]; v.Reason != tt.want || v.OK != (tt.want == "") || v.Ours != tt.ours {
				t.Errorf("got %+v, want %q, ours %t", v, tt.want, tt.ours)
			}
		})
	}
}

// A part is a share of the device's free memory when it is empty, whatever is on it now, and all
// parts fit.
func TestPartsDivideTheEmptyDevice(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	const bare = 23*GiB + 5*MiB // the driver keeps the rest
	taken := map[string]Bytes{}
	look := func(at float64, noise Bytes) {
		see(p, sec(at), func(_ int, r *Reading) {
			r.Free, r.Used = bare-noise, 200*MiB+noise
			for i := range 9 {
				if m := taken[fmt.Sprint(i)]; m > 0 {
					with(r, Process{UID: me, Attempt: fmt.Sprint(i), Memory: m})
				}
			}
		})
	}
	for i := range 3 {
		look(float64(i), Bytes(i*30)*MiB)
		g, ok := p.Find(sec(float64(i)), part(3), nil)
		if !ok || g.Memory > bare/3 || g.Memory < bare/3-100*MiB || g.Slots != 3 {
			t.Fatalf("part %d: got %+v, %t, want about %v", i, g, ok, bare/3)
		}
		p.Hold(fmt.Sprint(i), g)
		taken[fmt.Sprint(i)] = g.Memory / 2 // the rest is still promised
	}
	look(4, 0)
	if g, ok := p.Find(sec(4), part(3), nil); ok {
		t.Errorf("a fourth: got %+v", g)
	}
	if g, ok := p.Find(sec(4), Request{Min: 1, Max: 1, Memory: 4 * GiB, MaxUtil: 100, Share: true}, nil); ok {
		t.Errorf("one that names memory gets what is promised: %+v", g)
	}
	delete(taken, "1")
	p.Release(sec(5), "1")
	look(6, 0)
	if g, ok := p.Find(sec(6), part(3), nil); !ok || g.Memory > bare/3 || g.Memory < bare/3-100*MiB {
		t.Errorf("after one: got %+v, %t", g, ok)
	}
}

// Memory used by others leaves less than a part.
func TestPartNeedsFreeMemoryNextToOthers(t *testing.T) {
	p := NewPool(some(2, 24*GiB), anyone())
	see(p, sec(1), func(i int, r *Reading) {
		if i == 0 {
			with(r, bobs(13*GiB))
		}
	})
	v := p.Admit(sec(1), part(2))
	if v[0].OK || v[0].Reason != "11 GiB free, 12 GiB needed; python 4711 of bob is running on it, 13 GiB" || !v[1].OK {
		t.Errorf("got %+v", v)
	}
	devs := some(2, 24*GiB)
	devs[1].Total = 80 * GiB
	p = NewPool(devs, anyone())
	see(p, sec(1), nil)
	if g, _ := p.Find(sec(1), Request{Min: 2, Max: 2, MaxUtil: 100, Share: true, Slots: 2, Part: true}, nil); g.Memory != 12*GiB {
		t.Errorf("of two devices: got %v, want that of the smaller", g.Memory)
	}
}

// A rival's earlier claim counts, with the rival's slots or this run's.
func TestEarlierClaimWinsSlots(t *testing.T) {
	for _, tt := range []struct {
		own, theirs int
		want        string
	}{{2, 2, ""}, {1, 0, "GPU 0: held by alice, hers"}, {0, 1, "GPU 0: held by alice, hers"}, {0, 0, ""}} {
		p := NewPool(some(1, 24*GiB), anyone())
		see(p, sec(1), nil)
		g := Grant{UUIDs: []UUID{"GPU-0"}, Memory: GiB, Share: true, Slots: tt.own}
		p.Hold("a", g)
		got := p.Conflict(0, g, []Claim{{UUID: "GPU-0", User: "alice", Job: "hers", Memory: GiB, Share: true, Slots: tt.theirs}})
		if got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// The free memory of the empty device is unknown if a process does not report its memory.
func TestPartIsRefusedIfMemoryIsUnknown(t *testing.T) {
	p := NewPool(some(1, 32*GiB), anyone())
	see(p, sec(1), func(_ int, r *Reading) { with(r, Process{UID: me, Memory: -1}); r.Free, r.Used = 30*GiB, 2*GiB })
	g, ok := p.Find(sec(1), part(2), nil)
	if !ok || g.Memory != 31*GiB/2 {
		t.Errorf("got %+v, %t", g, ok)
	}
}
