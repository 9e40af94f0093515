package jobspec

import (
	"slices"
	"sort"
)

// Names and keys of up to millions of jobs are compared by sorting their hashes: a
// map of that size lies outside the caches, and each look at it would wait for
// memory. A hashed job is its hash in the upper half of a number and its index in
// the lower one.

// byHash sorts n jobs by their hash, those with the same one by their index.
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

// repeats calls f for every job of a sorted list that is the same as one before it:
// with the first of those, and with how many have come before. It ends when f
// returns false.
func repeats(list []uint64, same func(a, b int32) bool, f func(first, again int32, count int) bool) {
	type group struct {
		first int32
		count int
	}
	var groups []group // of one hash: one, unless hashes collide
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

// lookUp finds the job of a sorted list that has a hash and for which is says yes.
func lookUp(list []uint64, hash uint32, is func(id int32) bool) (id int32, ok bool) {
	at := sort.Search(len(list), func(i int) bool { return uint32(list[i]>>32) >= hash })
	for ; at < len(list) && uint32(list[at]>>32) == hash; at++ {
		if id = int32(uint32(list[at])); is(id) {
			return id, true
		}
	}
	return 0, false
}
