package forecast

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// result adds up what happened.
func (w *world) result() *Forecast {
	f := &Forecast{Stays: w.stays, Capacity: len(w.devices())}
	for _, s := range w.stays {
		f.Wall = max(f.Wall, s.End)
		f.Work += w.work(s)
	}
	f.GPUTime = used(w.stays)
	f.Longest = w.longest()
	for id := range w.Batch.Jobs {
		p := w.Core.Phase(id)
		if p != state.Pending && p != state.Waiting && p != state.Blocked {
			continue
		}
		if f.Never++; f.Why == "" {
			f.Why = w.Batch.Jobs[id].Name + ": " + w.Core.Why(w.now, id)
		}
	}
	return f
}

// work returns how much of all GPUs a job takes at least: of one that it shares, its part
// of the memory of the largest.
func (w *world) work(s Stay) time.Duration {
	takes := (s.End - s.Start) * time.Duration(len(s.GPUs))
	if total := gpu.Largest(w.devices()); s.Job >= 0 && w.Batch.Jobs[s.Job].Spec.Request.Share && total > 0 {
		return time.Duration(float64(takes) * min(1, float64(s.Memory)/float64(total)))
	}
	return takes
}

// used returns for how long GPUs were in use, all together.
func used(stays []Stay) (sum time.Duration) {
	until := map[int]time.Duration{}
	for _, s := range stays { // in the order of their starts
		for _, id := range s.GPUs {
			from := max(s.Start, until[id])
			sum += max(s.End-from, 0)
			until[id] = max(until[id], s.End)
		}
	}
	return sum
}

// longest returns how long the longest chain of jobs takes that run one after another,
// because of their needs or in a queue. They start in that order.
func (w *world) longest() (longest time.Duration) {
	chain := make([]time.Duration, len(w.Batch.Jobs)) // by job: that ends with it
	queues := make([]time.Duration, len(w.Batch.Queues))
	for _, s := range w.stays {
		if s.Job < 0 {
			longest = max(longest, s.End)
			continue
		}
		j := &w.Batch.Jobs[s.Job]
		before := chain[s.Job] // of an earlier attempt
		for _, n := range j.Needs {
			before = max(before, chain[n])
		}
		if j.Queue >= 0 {
			before = max(before, queues[j.Queue])
		}
		chain[s.Job] = before + s.End - s.Start
		if j.Queue >= 0 {
			queues[j.Queue] = chain[s.Job]
		}
		longest = max(longest, chain[s.Job])
	}
	return longest
}
