package runner

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// hours counts GPU hours. Time on a shared GPU counts once, however many jobs share it.
type hours struct {
	on    map[gpu.UUID]*occupied
	total time.Duration
}

// occupied is when jobs were on one GPU since it was last idle.
type occupied struct {
	live  int
	spans []span // of jobs that have ended, in order, disjoint
}

// A span is measured in CLOCK_BOOTTIME.
type span struct{ from, to time.Duration }

func (h *hours) started(start state.Fact) {
	for _, id := range start.GPUUUIDs {
		if h.on == nil {
			h.on = map[gpu.UUID]*occupied{}
		}
		if h.on[id] == nil {
			h.on[id] = &occupied{}
		}
		h.on[id].live++
	}
}

func (h *hours) ended(start, end state.Fact, now time.Duration) {
	s := span{now - time.Duration(end.Seconds*float64(time.Second)), now}
	for _, id := range start.GPUUUIDs {
		o := h.on[id]
		if o == nil {
			continue
		}
		o.add(s)
		if o.live--; o.live > 0 {
			continue
		}
		for _, s := range o.spans {
			h.total += s.to - s.from
		}
		o.spans = o.spans[:0]
	}
}

// add merges in a span that ends no earlier than the others.
func (o *occupied) add(s span) {
	for n := len(o.spans); n > 0 && o.spans[n-1].to >= s.from; n-- {
		last := o.spans[n-1]
		s.from, s.to = min(s.from, last.from), max(s.to, last.to)
		o.spans = slices.Delete(o.spans, n-1, n)
	}
	o.spans = append(o.spans, s)
}

// count returns the total, including ended jobs on GPUs that other jobs are still using.
func (h *hours) count() float64 {
	all := h.total
	for _, o := range h.on {
		for _, s := range o.spans {
			all += s.to - s.from
		}
	}
	return all.Hours()
}
