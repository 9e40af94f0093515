package gpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// link connects every two of the given devices.
func link(devs []Device, c Closeness, some ...int) {
	for _, i := range some {
		for _, k := range some {
			if devs[i].Links == nil {
				devs[i].Links = map[UUID]Closeness{}
			}
			if i != k {
				devs[i].Links[devs[k].UUID] = c
			}
		}
	}
}

// pairs returns n GPUs, half on each NUMA node, with NVLink between 0 and 1, 2 and 3, …
func pairs(n int) []Device {
	devs := some(n, 24*GiB)
	for i := range devs {
		devs[i].NUMA = fmt.Sprint(i * 2 / n)
	}
	for i := 0; i < n; i += 2 {
		link(devs, NVLink, i, i+1)
	}
	return devs
}

// cube returns 8 GPUs on two NUMA nodes, each with NVLink to all GPUs of its node and to one GPU of
// the other node.
func cube() []Device {
	devs := some(8, 24*GiB)
	for i := range devs {
		devs[i].NUMA = fmt.Sprint(i / 4)
		link(devs, NVLink, i, (i+4)%8)
	}
	link(devs, NVLink, 0, 1, 2, 3)
	link(devs, NVLink, 4, 5, 6, 7)
	return devs
}

func switched() []Device {
	devs := some(8, 24*GiB)
	for i := range devs {
		devs[i].NUMA = fmt.Sprint(i / 4)
	}
	for i := 0; i < 8; i += 2 {
		link(devs, Switch, i, i+1)
	}
	return devs
}

func TestClosestSetIsChosen(t *testing.T) {
	few := anyone()
	few.MaxGPUs = 2
	lone := some(3, 24*GiB)
	lone[0].NUMA, lone[2].NUMA = "1", "1"
	tests := []struct {
		name     string
		devs     []Device
		busy     []int // filled by bob's processes
		bob      []int // with a process of bob's that leaves enough memory
		rules    Rules
		min, max int
		want     []int
		close    Closeness
	}{
		{name: "a pair", devs: pairs(4), busy: []int{0}, min: 2, max: 2, want: []int{2, 3}, close: NVLink},
		{name: "one GPU: only pick counts", devs: pairs(4), busy: []int{0}, min: 1, max: 1, want: []int{1}},
		{name: "no complete pair is free", devs: pairs(8), busy: []int{0, 2, 4, 6}, min: 2, max: 2, want: []int{1, 3}, close: Node},
		{name: "no two on one node", devs: pairs(4), busy: []int{0, 3}, min: 2, max: 2, want: []int{1, 2}, close: Far},
		{name: "two pairs on a node", devs: pairs(8), busy: []int{0}, min: 4, max: 4, want: []int{4, 5, 6, 7}, close: Node},
		{name: "two pairs rather than parts of three", devs: pairs(16), busy: []int{0, 8, 9, 10, 11, 12, 13, 14, 15}, min: 4, max: 4, want: []int{2, 3, 4, 5}, close: Node},
		{name: "all that are free, if fewer than max", devs: pairs(4), busy: []int{0}, min: 2, max: 4, want: []int{1, 2, 3}, close: Far},
		{name: "a switch before a node", devs: switched(), busy: []int{0, 2}, min: 2, max: 2, want: []int{4, 5}, close: Switch},
		{name: "a node before no connection", devs: switched(), busy: []int{0, 2, 5}, min: 3, max: 3, want: []int{4, 6, 7}, close: Node},
		{name: "NVLink within a node", devs: cube(), busy: []int{0}, min: 4, max: 4, want: []int{4, 5, 6, 7}, close: NVLink},
		{name: "NVLink across the nodes", devs: cube(), busy: []int{0, 2, 3, 4, 6, 7}, min: 2, max: 2, want: []int{1, 5}, close: NVLink},
		{name: "no topology known", devs: some(4, 24*GiB), busy: []int{1}, min: 2, max: 2, want: []int{0, 2}},
		{name: "unknown counts as far", devs: lone, min: 2, max: 2, want: []int{0, 2}, close: Node},
		{name: "topology of one unknown", devs: lone, min: 3, max: 3, want: []int{0, 1, 2}},
		{name: "next to bob only if necessary", devs: pairs(6), busy: []int{0, 2}, bob: []int{4}, min: 2, max: 2, want: []int{3, 5}, close: Node},
		{name: "as few of bob's as possible", devs: pairs(6), bob: []int{0, 2, 3, 4, 5}, min: 2, max: 2, want: []int{0, 1}, close: NVLink},
		{name: "no more than max_gpus", devs: pairs(4), rules: few, busy: []int{0}, min: 2, max: 4, want: []int{2, 3}, close: NVLink},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := tt.rules
			if rules.Pick == "" {
				rules = anyone()
			}
			p := NewPool(tt.devs, rules)
			see(p, sec(1), func(i int, r *Reading) {
				if slices.Contains(tt.busy, i) {
					with(r, bobs(23*GiB))
				} else if slices.Contains(tt.bob, i) {
					with(r, bobs(GiB))
				}
			})
			req := Request{Min: tt.min, Max: tt.max, Memory: 8 * GiB, MaxUtil: 100}
			g, _, _ := choose(p, sec(1), req, nil)
			if !slices.Equal(g.Indices, tt.want) || g.Close != tt.close {
				t.Errorf("got %v, %q, want %v, %q", g.Indices, g.Close, tt.want, tt.close)
			}
		})
	}
}

// On any machine, no set of the same size may be closer than the one found.
func TestChosenSetIsAlwaysTheClosest(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		devs := some(2+r.IntN(7), 24*GiB)
		for i := range devs {
			devs[i].NUMA = []string{"", "0", "1"}[r.IntN(3)]
			for k := range i {
				if c := nearer[r.IntN(4)]; c != Far {
					link(devs, c, i, k)
				}
			}
		}
		p := NewPool(devs, anyone())
		see(p, sec(1), nil)
		size := 2 + r.IntN(len(devs)-1)
		g, ok := p.Find(sec(1), Request{Min: size, Max: size, MaxUtil: 100}, nil)
		if !ok || len(g.UUIDs) != size {
			t.Fatalf("seed %d: got %v, want %d devices", seed, g, size)
		}
		got := p.byUUID(g.UUIDs)
		for set := range 1 << len(devs) {
			var other []*device
			for i := range devs {
				if set&(1<<i) != 0 {
					other = append(other, p.devs[i])
				}
			}
			if len(other) == size && slices.Compare(measure(other), measure(got)) > 0 {
				t.Fatalf("seed %d: %v is closer than %v", seed, uuids(other), g.UUIDs)
			}
		}
	}
}

// measure returns the closeness of a set's farthest two devices, and the sum over all pairs.
func measure(set []*device) []int {
	least, sum := 9, 0
	for i, a := range set {
		for _, b := range set[:i] {
			least = min(least, near(a, b).rank())
			sum += near(a, b).rank()
		}
	}
	return []int{least, sum}
}

// A job that does not share takes the smallest GPU that fits, so that large ones stay free for jobs
// that need them. First-fit and round-robin ignore the size.
func TestExclusiveJobTakesTheSmallestGPU(t *testing.T) {
	devs := some(4, 80*GiB)
	devs[1].Total, devs[2].Total, devs[3].Total = 24*GiB, 24*GiB-12*MiB, 48*GiB
	for _, tt := range []struct {
		pick   Pick
		share  bool
		memory Bytes
		want   []int
	}{
		{MostFree, false, 8 * GiB, []int{1}},
		{MostFree, false, 40 * GiB, []int{3}},
		{MostFree, true, 8 * GiB, []int{0}},
		{BestFit, false, 8 * GiB, []int{2}},
		{LeastUtil, false, 8 * GiB, []int{1}},
		{FirstFit, false, 8 * GiB, []int{0}},
		{RoundRobin, false, 8 * GiB, []int{0}},
	} {
		rules := anyone()
		rules.Pick = tt.pick
		p := NewPool(devs, rules)
		see(p, sec(1), nil)
		g, _ := p.Find(sec(1), Request{Min: 1, Max: 1, Memory: tt.memory, MaxUtil: 100, Share: tt.share}, nil)
		if !slices.Equal(g.Indices, tt.want) {
			t.Errorf("%s, share %t, %s: got %v, want %v", tt.pick, tt.share, tt.memory, g.Indices, tt.want)
		}
	}
}

// Jobs that share fill a GPU that is already shared, even if an empty one is smaller.
func TestSharingJobsFillSharedGPUsFirst(t *testing.T) {
	devs := some(3, 24*GiB)
	devs[1].Total = 80 * GiB
	rules := anyone()
	rules.Pick = BestFit
	p := NewPool(devs, rules)
	see(p, sec(1), nil)
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-1"}, Memory: 8 * GiB, Share: true})
	for _, want := range []UUID{"GPU-1", "GPU-1"} {
		g, _ := p.Find(sec(1), Request{Min: 1, Max: 1, Memory: 8 * GiB, MaxUtil: 100, Share: true}, nil)
		if !slices.Equal(g.UUIDs, []UUID{want}) {
			t.Errorf("got %v, want %s", g.UUIDs, want)
		}
		p.Hold(fmt.Sprint(len(p.devs[1].holds)), g)
	}
}

func TestCoresOfNUMANodes(t *testing.T) {
	devs := some(4, 24*GiB)
	devs[0].Cores, devs[1].Cores, devs[2].Cores = "0-7", "0-7", "8-15"
	p := NewPool(devs, anyone())
	for want, ids := range map[string][]UUID{
		"0-7": {"GPU-0", "GPU-1"}, "0-7,8-15": {"GPU-1", "GPU-2"}, "8-15": {"GPU-2"}, "": {"GPU-0", "GPU-3"},
	} {
		if got := p.Cores(Grant{UUIDs: ids}); got != want {
			t.Errorf("%v: got %q, want %q", ids, got, want)
		}
	}
}
