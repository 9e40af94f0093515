package gpu

import (
	"slices"
	"testing"
	"time"
)

func TestConflictWithEarlierClaims(t *testing.T) {
	held := func(memory Bytes, share bool, taken Bytes) []Claim {
		return []Claim{{UUID: "GPU-1", User: "alice", Job: "train", Attempt: "u", Memory: memory, Share: share, Taken: taken}}
	}
	tests := []struct {
		name   string
		share  bool
		before []Claim // claims in the last reading
		claims []Claim // claims read after publishing
		want   string
	}{
		{"claims not read", false, nil, nil, ""},
		{"no claims", false, nil, []Claim{}, ""},
		{"another device", false, nil, []Claim{{UUID: "GPU-0"}}, ""},
		{"not shared", false, nil, held(0, true, 0), "GPU 1: held by alice, train"},
		{"shared, the other is not", true, nil, held(GiB, false, 0), "GPU 1: held by alice, train"},
		{"shared, exactly fits", true, nil, held(14*GiB, true, 0), ""},
		{"shared, too much", true, nil, held(14*GiB+1, true, 0), "GPU 1: held by alice, train"},
		{"shared, some of it in use", true, held(16*GiB, true, 4*GiB), held(16*GiB, true, 0), ""},
		{"unreadable claims", false, nil, []Claim{{UUID: Every, User: "alice", Job: "train"}}, "GPU 1: held by alice, train"},
		{"released since", false, held(GiB, false, 0), []Claim{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			devs := []Device{{Index: 0, UUID: "GPU-0", Total: 24 * GiB}, {Index: 1, UUID: "GPU-1", Total: 24 * GiB}}
			p := NewPool(devs, Rules{MinGPUs: -1, MaxGPUs: -1, UID: 1000})
			snap := Observation{At: 1, Claims: tt.before}
			for _, d := range devs {
				snap.Readings = append(snap.Readings, Reading{UUID: d.UUID, Total: d.Total, Free: 24 * GiB, Used: 0, Listed: true})
			}
			p.Observe(snap)
			g := Grant{UUIDs: []UUID{"GPU-1"}, Memory: 10 * GiB, Share: tt.share}
			p.Hold("mine", g)
			if got := p.Conflict(0, g, tt.claims); got != tt.want {
				t.Errorf("Conflict = %q, want %q", got, tt.want)
			}
			p.Undo("mine")
			why := ""
			for _, v := range p.Admit(2, Request{Min: 1, Max: 1, Memory: GiB, MaxUtil: 100}) {
				if v.UUID == "GPU-1" {
					why = v.Reason
				}
			}
			if len(tt.claims) > 0 && tt.claims[0].UUID == "GPU-1" && why != "held by alice, train" {
				t.Errorf("after Undo, GPU 1 is refused for %q", why)
			}
		})
	}
}

// A reading of some devices must not change the memory in use on others.
func TestPartialReadingKeepsOtherDevices(t *testing.T) {
	devs := []Device{{Index: 0, UUID: "GPU-0", Total: 24 * GiB}, {Index: 1, UUID: "GPU-1", Total: 24 * GiB}}
	p := NewPool(devs, Rules{MinGPUs: -1, MaxGPUs: -1, UID: 1000})
	see := func(at time.Duration, taken Bytes, ids ...UUID) {
		snap := Observation{At: at, Claims: []Claim{
			{UUID: "GPU-0", Attempt: "u", Memory: 10 * GiB, Share: true}, {UUID: "GPU-1", Attempt: "u", Memory: 10 * GiB, Share: true},
		}}
		for _, id := range ids {
			snap.Readings = append(snap.Readings, Reading{UUID: id, Total: 24 * GiB, Free: 24*GiB - taken, Used: taken, Listed: true})
			for i := range snap.Claims {
				if snap.Claims[i].UUID == id {
					snap.Claims[i].Taken = taken
				}
			}
		}
		p.Observe(snap)
	}
	see(1, 4*GiB, "GPU-0", "GPU-1")
	see(2, 3*GiB, "GPU-0")
	var got []Bytes
	for _, d := range p.devs {
		got = append(got, d.available())
	}
	if want := []Bytes{14 * GiB, 14 * GiB}; !slices.Equal(got, want) {
		t.Errorf("available: got %v, want %v", got, want)
	}
}

// While this run still claims a device after its job has ended, another run that claims the device
// is about to withdraw, and must not block the next job.
func TestClaimsBeforeYieldDoNotCount(t *testing.T) {
	tests := []struct {
		name  string
		share bool
		then  func(p *Pool)
		want  string
	}{
		{"still claimed", false, func(*Pool) {}, ""},
		{"yielded", false, func(p *Pool) { p.Yield([]UUID{"GPU-0"}) }, "held by alice, train"},
		{"held again and undone", false, func(p *Pool) { p.Hold("next", Grant{UUIDs: []UUID{"GPU-0"}}); p.Undo("next") }, "held by alice, train"},
		{"shared", true, func(*Pool) {}, "held by alice, train"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool([]Device{{UUID: "GPU-0", Total: 24 * GiB}}, Rules{MinGPUs: -1, MaxGPUs: -1, UID: 1000})
			see := func(at time.Duration, hers ...Claim) {
				p.Observe(Observation{At: at, Claims: append([]Claim{}, hers...), Readings: []Reading{{UUID: "GPU-0", Total: 24 * GiB, Free: 24 * GiB, Used: 0, Listed: true}}})
			}
			see(1)
			p.Hold("mine", Grant{UUIDs: []UUID{"GPU-0"}, Memory: GiB, Share: tt.share})
			see(2, Claim{UUID: "GPU-0", User: "alice", Job: "train", Attempt: "u"})
			p.Release(3, "mine")
			if !tt.share && p.StillInUse([]UUID{"GPU-0"}) {
				t.Error("StillInUse is true because of alice's claim")
			}
			tt.then(p)
			see(4, Claim{UUID: "GPU-0", User: "alice", Job: "train", Attempt: "u"})
			if got := p.Admit(5, Request{Min: 1, Max: 1, Memory: GiB, MaxUtil: 100})[0].Reason; got != tt.want {
				t.Errorf("refused for %q, want %q", got, tt.want)
			}
		})
	}
}

// In a container, invisible processes on a device that only this user claims belong to this user.
func TestInvisibleProcessesInAContainerAreOwn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		held   bool
		claims []Claim
		hidden bool // whether the PID is the host's, so that the process is invisible
		want   Process
	}{
		{"a job's", true, []Claim{}, true, Process{UID: 1000, Attempt: "mine"}},
		{"another run's job", false, []Claim{{UUID: "GPU-0", UID: 1000, User: "me", Share: true}}, true, Process{UID: 1000, User: "me"}},
		{"either's", true, []Claim{{UUID: "GPU-0", UID: 1000, User: "me", Share: true}}, true, Process{UID: 1000, User: "me"}},
		{"on the host", true, []Claim{}, false, Process{UID: -1}},
		{"no claim", false, []Claim{}, true, Process{UID: -1}},
		{"another user's claim, too", true, []Claim{{UUID: "GPU-0", UID: 1001, Share: true}}, true, Process{UID: -1}},
	} {
		p := NewPool([]Device{{UUID: "GPU-0", Total: 24 * GiB}}, Rules{MinGPUs: -1, MaxGPUs: -1, UID: 1000})
		if tt.held {
			p.Hold("mine", Grant{UUIDs: []UUID{"GPU-0"}, Memory: GiB, Share: true})
		}
		p.Observe(Observation{At: 1, Claims: tt.claims, Readings: []Reading{{UUID: "GPU-0", Total: 24 * GiB, Free: 23 * GiB, Used: GiB, Listed: true,
			Processes: []Process{{PID: 7, UID: -1, Memory: GiB, Doubtful: tt.hidden}}}}})
		got := p.Views(1)[0].Processes[0]
		if got.UID != tt.want.UID || got.User != tt.want.User || got.Attempt != tt.want.Attempt || (got.UID >= 0) != (got.Command == "in this container") {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
