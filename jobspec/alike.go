package jobspec

import (
	"slices"
	"sort"
)

// Batches of up to millions of jobs are deduplicated by sorting hashes of names and
// keys: a map that large does not fit the CPU caches, and every lookup would wait
// for memory. A hashed job is one number: hash in the upper half, job index in the
// lower.

// byHash sorts n jobs by hash; ties keep the order of their indices.
func byHash(n int, hash func(i int) uint32) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(hash(i))<<32 | uint64(uint32(i))
	}
	if n < 2048 {
		slices.Sort(list)
		return list
	}
	other := make([]uint64, n)
	for _, shift := range [...]uint{32, 43, 54} { // eleven bits at a time, the lowest ones first
		var next [2049]int
		for _, v := range list {
			next[v>>shift&2047+1]++
		}
		for i := range 2048 {
			next[i+1] += next[i]
		}
		for _, v := range list {
			b := v >> shift & 2047
			other[next[b]] = v
			next[b]++
		}
		list, other = other, list
	}
	return list
}

// repeats calls f for every job of a sorted list that equals an earlier one, with the
// first job of its kind and the number of equals so far. It stops when f returns
// false.
func repeats(list []uint64, same func(a, b int32) bool, f func(first, again int32, count int) bool) {
	type group struct {
		first int32
		count int
	}
	var groups []group // one per distinct job; several per hash only on a collision
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to]>>32 == list[from]>>32 {
			to++
		}
		if to-from > 1 {
			groups = groups[:0]
			for _, v := range list[from:to] {
				id := int32(uint32(v))
				i := slices.IndexFunc(groups, func(g group) bool { return same(g.first, id) })
				if i < 0 {
					groups = append(groups, group{id, 1})
					continue
				}
				if !f(groups[i].first, id, groups[i].count) {
					return
				}
				groups[i].count++
			}
		}
		from = to
	}
}

// lookUp returns the job of a sorted list that has the hash and satisfies is.
func lookUp(list []uint64, hash uint32, is func(id int32) bool) (id int32, ok bool) {
	at := sort.Search(len(list), func(i int) bool { return uint32(list[i]>>32) >= hash })
	for ; at < len(list) && uint32(list[at]>>32) == hash; at++ {
		if id = int32(uint32(list[at])); is(id) {
			return id, true
		}
	}
	return 0, false
}
