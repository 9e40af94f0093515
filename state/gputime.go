package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
)

// A GPUTime adds up how long attempts held GPUs. Time on a shared GPU counts once, however many
// attempts shared it. For each GPU it keeps disjoint spans in order.
type GPUTime map[gpu.UUID][]span

type span struct{ from, to int64 } // Unix nanoseconds

// Add adds an attempt that ended. It is fast if attempts are added in the order of their ends.
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

// AddAttempt adds an attempt given by its start and end facts. On a cluster, an attempt holds GPUs
// only from when it began. GPUs without a UUID are identified by node and number.
func (t GPUTime) AddAttempt(start, end *Fact) {
	ids, from := start.GPUUUIDs, start.Time
	if end.Host != "" { // a cluster chose the GPUs after the start
		ids, from = slices.Clip(end.GPUUUIDs), end.BeganAt()
		for _, n := range end.GPUs[min(len(ids), len(end.GPUs)):] {
			ids = append(ids, gpu.UUID(fmt.Sprintf("%s %d", end.Host, n)))
		}
	}
	t.Add(ids, from, end.Time)
}

// Total returns the total time.
func (t GPUTime) Total() time.Duration { return t.Since(time.Unix(0, 0)) }

// Since returns the part of the total time after a given time.
func (t GPUTime) Since(some time.Time) time.Duration {
	var sum int64
	for _, held := range t {
		for _, s := range held {
			sum += max(0, s.to-max(s.from, some.UnixNano()))
		}
	}
	return time.Duration(sum)
}
