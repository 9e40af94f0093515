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
		{name: "no third of two", holds: []Grant{{Slots: 2, Share: true}, {Slots: 2, Share: true}}, req: shared(2), want: "2 jobs run on it (slots: 2)", ours: true},
		{name: "own slots limit, although the other job has none", holds: []Grant{{Share: true}}, req: shared(1), want: "1 job runs on it (slots: 1)", ours: true},
		{name: "the other job's slots limit", holds: []Grant{{Slots: 1, Share: true}}, req: shared(0), want: "1 job runs on it (slots: 1)", ours: true},
		{name: "no slots: only memory limits", holds: []Grant{{Share: true}, {Share: true}, {Share: true}}, req: shared(0)},
		{name: "alice's slots are fewer", claims: []Claim{claim(1, true)}, req: shared(3), want: "1 job runs on it (slots: 1, set by alice)"},
		{name: "our slots are fewer", claims: []Claim{claim(3, true)}, req: shared(1), want: "1 job runs on it (slots: 1)"},
		{name: "one of alice's slots is free", claims: []Claim{claim(2, true)}, req: shared(3)},
		{name: "alice's job and ours fill the slots", holds: []Grant{{Slots: 3, Share: true}}, claims: []Claim{claim(2, true)}, req: shared(3),
			want: "2 jobs run on it (slots: 2, set by alice)", ours: true},
		{name: "alice's job alone fills the slots", holds: []Grant{{Slots: 3, Share: true}}, claims: []Claim{claim(1, true)}, req: shared(3),
			want: "2 jobs run on it (slots: 1, set by alice)"},
		{name: "another user's job does not share", claims: []Claim{claim(0, false)}, req: shared(3), want: "held by alice, hers"},
		{name: "our job does not share", holds: []Grant{{}}, req: shared(3), want: "held by a job of this run", ours: true},
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

// A part is a fraction of the memory that is free on the empty device, whatever runs on it now. All
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
		t.Errorf("a fourth part: got %+v, want none", g)
	}
	if g, ok := p.Find(sec(4), Request{Min: 1, Max: 1, Memory: 4 * GiB, MaxUtil: 100, Share: true}, nil); ok {
		t.Errorf("a request for memory gets promised memory: %+v", g)
	}
	delete(taken, "1")
	p.Release(sec(5), "1")
	look(6, 0)
	if g, ok := p.Find(sec(6), part(3), nil); !ok || g.Memory > bare/3 || g.Memory < bare/3-100*MiB {
		t.Errorf("after one ended: got %+v, %t, want about %v", g, ok, bare/3)
	}
}

// If other users leave less than a part free, the device is refused.
func TestPartNeedsFreeMemoryNextToOthers(t *testing.T) {
	p := NewPool(some(2, 24*GiB), anyone())
	see(p, sec(1), func(i int, r *Reading) {
		if i == 0 {
			with(r, bobs(13*GiB))
		}
	})
	v := p.Admit(sec(1), part(2))
	if v[0].OK || v[0].Reason != "11 GiB free, 12 GiB needed; bob's python 4711 is using 13 GiB" || !v[1].OK {
		t.Errorf("got %+v, want GPU 0 refused and GPU 1 admitted", v)
	}
	devs := some(2, 24*GiB)
	devs[1].Total = 80 * GiB
	p = NewPool(devs, anyone())
	see(p, sec(1), nil)
	if g, _ := p.Find(sec(1), Request{Min: 2, Max: 2, MaxUtil: 100, Share: true, Slots: 2, Part: true}, nil); g.Memory != 12*GiB {
		t.Errorf("part of two devices: got %v, want half of the smaller one", g.Memory)
	}
}

// A rival's earlier claim takes a slot, whether the slots are the rival's or this run's.
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
			t.Errorf("own slots %d, theirs %d: got %q, want %q", tt.own, tt.theirs, got, tt.want)
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
