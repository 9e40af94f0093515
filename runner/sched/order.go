package sched

import (
	"cmp"
	"slices"

	"gpurun/jobspec"
)

// ranks is the order in which ready jobs are tried: by priority, then by the order
// setting.
type ranks struct {
	byJob  []int32 // rank of each job; nil if that is the file's order
	byRank []int32
}

func newRanks(b *jobspec.Batch) ranks {
	less := ranking(b)
	n := int32(len(b.Jobs))
	sorted := true
	for i := int32(1); i < n && sorted; i++ {
		sorted = less(i-1, i) <= 0
	}
	if sorted {
		return ranks{}
	}
	r := ranks{byJob: make([]int32, n), byRank: make([]int32, n)}
	for i := range r.byRank {
		r.byRank[i] = int32(i)
	}
	slices.SortFunc(r.byRank, less)
	for rank, id := range r.byRank {
		r.byJob[id] = int32(rank)
	}
	return r
}

// ranking returns a comparison of two jobs. It never calls different jobs equal.
func ranking(b *jobspec.Batch) func(a, c int32) int {
	within := func(x, y int32) int { return 0 }
	switch b.Settings.Order {
	case "shuffle":
		seed := uint64(b.Settings.ShuffleSeed)
		within = func(x, y int32) int { return cmp.Compare(mix(seed, x), mix(seed, y)) }
	case "largest-first":
		within = func(x, y int32) int { return -larger(b.Jobs[x].Spec, b.Jobs[y].Spec) }
	}
	return func(x, y int32) int {
		if d := cmp.Compare(b.Jobs[y].Spec.Priority, b.Jobs[x].Spec.Priority); d != 0 {
			return d
		}
		if d := within(x, y); d != 0 {
			return d
		}
		return cmp.Compare(x, y)
	}
}

// larger compares what two jobs ask for: GPU memory on all their GPUs, then GPUs, host
// memory, and cores.
func larger(a, b *jobspec.Spec) int {
	return cmp.Or(
		cmp.Compare(int64(a.Request.Memory)*int64(a.Request.Min), int64(b.Request.Memory)*int64(b.Request.Min)),
		cmp.Compare(a.Request.Min, b.Request.Min),
		cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.CPUs, b.CPUs),
	)
}

// mix is splitmix64: it gives each job a random-looking number, the same in every run
// with the same seed.
func mix(seed uint64, id int32) uint64 {
	z := seed + (uint64(id)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *ranks) of(id int32) int32 {
	if r.byJob == nil {
		return id
	}
	return r.byJob[id]
}

func (r *ranks) job(rank int32) int32 {
	if r.byRank == nil {
		return rank
	}
	return r.byRank[rank]
}
