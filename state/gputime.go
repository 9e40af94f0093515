package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
)

// A GPUTime adds up for how long attempts held GPUs. Time on a shared GPU counts once,
// however many of them shared it. Each GPU has the times at which it was held: apart, in
// order.
type GPUTime map[gpu.UUID][]span

type span struct{ from, to int64 } // Unix nanoseconds

// Add counts an attempt that ended. It is quick if attempts come in the order of their ends.
func (t GPUTime) Add(ids []gpu.UUID, from, to time.Time) {
	if !to.After(from) {
		return
	}
	for _, id := range ids {
		held := t[id]
		added := span{from.UnixNano(), to.UnixNano()}
		first, _ := slices.BinarySearchFunc(held, added.from, func(s span, at int64) int { return cmp.Compare(s.to, at) })
		last := first
		for ; last < len(held) && held[last].from <= added.to; last++ {
			added.from, added.to = min(added.from, held[last].from), max(added.to, held[last].to)
		}
		t[id] = slices.Replace(held, first, last, added)
	}
}

// AddAttempt counts an attempt by its start and its end. On a cluster it has GPUs once it began; if only
// their numbers are known, they are told apart by these and the node.
func (t GPUTime) AddAttempt(start, end *Fact) {
	ids, from := start.GPUUUIDs, start.Time
	if end.Host != "" { // a cluster chose them, after the start
		ids, from = slices.Clip(end.GPUUUIDs), end.BeganAt()
		for _, n := range end.GPUs[min(len(ids), len(end.GPUs)):] {
			ids = append(ids, gpu.UUID(fmt.Sprintf("%s %d", end.Host, n)))
		}
	}
	t.Add(ids, from, end.Time)
}

// Total returns the sum.
func (t GPUTime) Total() time.Duration { return t.Since(time.Unix(0, 0)) }

// Since returns what of it is after some time.
func (t GPUTime) Since(some time.Time) time.Duration {
	var sum int64
	for _, held := range t {
		for _, s := range held {
			sum += max(0, s.to-max(s.from, some.UnixNano()))
		}
	}
	return time.Duration(sum)
}
