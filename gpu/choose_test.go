package gpu

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestPoliciesOrderDevices(t *testing.T) {
	// By device: 10, 20, 16, 20 and 24 GiB are free; they are 20, 5, unknown, 0 and 0% busy. Bob's
	// process is on the last.
	look := func(i int, r *Reading) {
		used := []Bytes{14, 4, 8, 4, 0}[i] * GiB
		if i < 4 {
			with(r, Process{PID: 1, UID: me, Memory: used})
		}
		r.Samples[0].Percent = []int{20, 5, 0, 0, 0}[i]
		if i == 2 {
			r.Samples = nil
		}
		if i == 4 {
			with(r, Process{PID: 2, UID: bob, Memory: GiB / 8})
		}
	}
	tests := []struct {
		pick   Pick
		others Others
		want   []int // the order in which devices are taken
	}{
		{MostFree, OthersAllow, []int{1, 3, 2, 0, 4}},
		{LeastUtil, OthersAllow, []int{3, 1, 0, 2, 4}},
		{FirstFit, OthersAllow, []int{0, 1, 2, 3, 4}},
		{BestFit, OthersAllow, []int{0, 2, 1, 3, 4}},
		{RoundRobin, OthersAllow, []int{0, 1, 2, 3, 4}},
		{MostFree, OthersAvoid, []int{1, 3, 2, 0}},
	}
	for _, tt := range tests {
		t.Run(string(tt.pick)+" "+string(tt.others), func(t *testing.T) {
			rules := anyone()
			rules.Pick, rules.Others = tt.pick, tt.others
			p := NewPool(some(5, 24*GiB), rules)
			see(p, sec(1), look)
			var got []int
			for {
				g, _, ok := choose(p, sec(1), Request{Min: 1, Max: 1, Memory: GiB, MaxUtil: 100, Share: true}, nil)
				if !ok {
					break
				}
				g.Share = false
				p.Hold(fmt.Sprint(len(got)), g)
				got = append(got, g.Indices...)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRoundRobinContinuesAfterTheLastDevice(t *testing.T) {
	rules := anyone()
	rules.Pick = RoundRobin
	p := NewPool(some(4, 24*GiB), rules)
	var got []string
	for i, n := range []int{1, 2, 2, 1} {
		see(p, sec(float64(i)), nil)
		g, _, _ := choose(p, sec(float64(i)), Request{Min: n, Max: n, MaxUtil: 100}, nil)
		again, _, _ := choose(p, sec(float64(i)), Request{Min: n, Max: n, MaxUtil: 100}, nil)
		if !reflect.DeepEqual(g, again) {
			t.Errorf("without Hold, the next choice differs: %v, %v", g, again)
		}
		p.Hold("a", g)
		p.Release(sec(float64(i)), "a")
		got = append(got, fmt.Sprint(g.Indices))
	}
	if want := []string{"[0]", "[1 2]", "[0 3]", "[1]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMIGInstanceIsOnlyUsedAlone(t *testing.T) {
	devs := append(some(2, 24*GiB), Device{Index: 2, UUID: "MIG-a", Parent: "GPU-2", MIG: true, Total: 40 * GiB})
	p := NewPool(devs, Rules{MinGPUs: -1, MaxGPUs: -1, Pick: MostFree, UID: me})
	see(p, sec(1), nil)
	for _, tt := range []struct {
		name     string
		min, max int
		memory   Bytes
		want     []UUID
	}{
		{"one: the smallest that fits", 1, 1, 8 * GiB, []UUID{"GPU-0"}},
		{"one, too large for a GPU", 1, 1, 30 * GiB, []UUID{"MIG-a"}},
		{"one or two: whole GPUs", 1, 2, 8 * GiB, []UUID{"GPU-0", "GPU-1"}},
		{"one or two, too large for a GPU: a single instance", 1, 2, 30 * GiB, []UUID{"MIG-a"}},
		{"two", 2, 3, 8 * GiB, []UUID{"GPU-0", "GPU-1"}},
	} {
		g, _, _ := choose(p, sec(1), Request{Min: tt.min, Max: tt.max, Memory: tt.memory, MaxUtil: 30}, nil)
		if !slices.Equal(g.UUIDs, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, g.UUIDs, tt.want)
		}
	}
}

func TestCandidatesAreFreeOrHeldByThisRun(t *testing.T) {
	p := NewPool(some(6, 24*GiB), anyone())
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-1"}, Memory: 8 * GiB})
	p.Hold("b", Grant{UUIDs: []UUID{"GPU-2"}, Memory: 8 * GiB})
	p.Hold("c", Grant{UUIDs: []UUID{"GPU-4"}, Memory: 8 * GiB})
	see(p, sec(1), func(i int, r *Reading) {
		switch i {
		case 2: // held by this run, but too little is free even without its job
			with(r, Process{UID: me, Attempt: "b", Memory: 8 * GiB})
			with(r, bobs(8*GiB))
		case 3:
			with(r, bobs(8*GiB))
		case 4: // its job uses all of its grant
			with(r, Process{UID: me, Attempt: "c", Memory: 8 * GiB})
		}
	})
	free, ours := p.Candidates(sec(1), Request{Min: 4, Max: 4, Memory: 20 * GiB, MaxUtil: 30}, []UUID{"GPU-5"})
	if wantFree, wantOurs := []UUID{"GPU-0"}, []UUID{"GPU-1", "GPU-4"}; !slices.Equal(free, wantFree) || !slices.Equal(ours, wantOurs) {
		t.Errorf("got %v, %v, want %v, %v", free, ours, wantFree, wantOurs)
	}
	p.Release(sec(2), "a")
	if _, ours := p.Candidates(sec(2), one(20*GiB), nil); !slices.Contains(ours, "GPU-1") {
		t.Errorf("just released: got %v, want GPU-1 among them", ours)
	}
}

func TestCandidatesOfSharingJobs(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 20 * GiB, Share: true})
	see(p, sec(1), nil)
	req := Request{Min: 1, Max: 1, Memory: 20 * GiB, MaxUtil: 100, Share: true}
	if _, ours := p.Candidates(sec(1), req, nil); len(ours) != 1 {
		t.Errorf("only our memory is in the way: got %v, want the device", ours)
	}
	see(p, sec(2), func(_ int, r *Reading) { with(r, bobs(10*GiB)) })
	if free, ours := p.Candidates(sec(2), req, nil); len(free)+len(ours) != 0 {
		t.Errorf("bob's memory is in the way, too: got %v, %v, want none", free, ours)
	}
}

func TestPossibleExplainsImpossibleRequests(t *testing.T) {
	devs := append(some(2, 24*GiB), Device{Index: 2, UUID: "GPU-2", Name: "NVIDIA H100", Total: 80 * GiB})
	limited := anyone()
	limited.MaxGPUs, limited.Reserve = 2, 0
	reserving := anyone()
	reserving.Reserve = 1
	tests := []struct {
		name  string
		rules Rules
		req   Request
		want  string // part of the reason; "" if possible
	}{
		{"none", anyone(), Request{}, ""},
		{"all", anyone(), Request{Min: 3, Max: 3, Memory: 24 * GiB}, ""},
		{"the largest, all of it", anyone(), one(80 * GiB), ""},
		{"more than the largest", anyone(), one(80*GiB + 1), "no suitable GPU here: GPU 2: 81920 MiB total, 81921 MiB needed"},
		{"too many", anyone(), Request{Min: 4, Max: 4}, "needs 4 GPUs, but this machine has 3 GPUs"},
		{"too few large enough", anyone(), Request{Min: 2, Max: 2, Memory: 40 * GiB}, "needs 2 GPUs, but this machine has only 1 suitable GPU"},
		{"no such model", anyone(), Request{Min: 1, Max: 1, Models: "b200"}, `not "b200"`},
		{"model matches", anyone(), Request{Min: 1, Max: 1, Models: NamesOf([]string{"B200", "h100"})}, ""},
		{"above max_gpus", limited, Request{Min: 3, Max: 3}, "needs 3 GPUs, but min_gpus, max_gpus and reserve allow this run only 2 GPUs"},
		{"up to max_gpus", limited, Request{Min: 2, Max: 3}, ""},
		{"the reserved one", reserving, one(80 * GiB), "reserved for other users (reserve: 1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(devs, tt.rules)
			p.Observe(Observation{Err: "hangs"}) // a current failure must not matter
			got, ok := p.Possible(tt.req)
			if ok != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

func TestSelectByIndexRangeOrUUID(t *testing.T) {
	devs := []Device{
		{Index: 0, UUID: "GPU-aa1"}, {Index: 1, UUID: "GPU-aa2"}, {Index: 2, UUID: "GPU-b"}, {Index: 2, UUID: "GPU-b2"},
		{Index: 3, UUID: "MIG-c1", Parent: "GPU-d", MIG: true}, {Index: 3, UUID: "MIG-c2", Parent: "GPU-d", MIG: true},
	}
	tests := []struct {
		ids  []string
		want []int
		err  string
	}{
		{ids: nil, want: []int{0, 1, 2, 3, 4, 5}},
		{ids: []string{"1", "0"}, want: []int{0, 1}},
		{ids: []string{"1-2"}, want: []int{1, 2, 3}},
		{ids: []string{"GPU-aa2"}, want: []int{1}},
		{ids: []string{"GPU-aa"}, err: `"GPU-aa" is ambiguous: it matches the UUIDs of several GPUs`},
		{ids: []string{"GPU-b"}, want: []int{2}},
		{ids: []string{"3"}, want: []int{4, 5}},
		{ids: []string{"GPU-d"}, want: []int{4, 5}},
		{ids: []string{"MIG-c2"}, want: []int{5}},
		{ids: []string{"MIG-c"}, err: "several"},
		{ids: []string{"0", "9"}, err: `no GPU here matches "9": this machine has 0 (GPU-aa1), 1 (GPU-aa2)`},
		{ids: []string{""}, err: `no GPU here matches ""`},
		{ids: []string{"-1"}, err: `no GPU here matches "-1"`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.ids), func(t *testing.T) {
			got, err := Select(devs, tt.ids)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got %v, want %q", err, tt.err)
			}
			var want []Device
			for _, i := range tt.want {
				want = append(want, devs[i])
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestReserveKeepsTheHighestIndices(t *testing.T) {
	for _, tt := range []struct {
		reserve int
		ids     []string
		want    string // the devices that a job may use
	}{{0, nil, "0123"}, {1, nil, "012"}, {2, []string{"0", "1", "3"}, "0"}, {9, nil, ""}} {
		rules := anyone()
		rules.Reserve, rules.IDs = tt.reserve, tt.ids
		p := NewPool(some(4, 24*GiB), rules)
		see(p, sec(1), nil)
		got := ""
		for _, v := range p.Admit(sec(1), one(GiB)) {
			if v.OK {
				got += fmt.Sprint(v.Index)
			}
		}
		if got != tt.want {
			t.Errorf("reserve %d of %v: got %q, want %q", tt.reserve, tt.ids, got, tt.want)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	p := NewPool(some(8, 24*GiB), anyone())
	see(p, sec(1), nil)
	req := Request{Min: 4, Max: 4, Memory: GiB, MaxUtil: 30}
	b.ReportAllocs()
	for b.Loop() {
		fits(p, sec(1), req)
	}
}
