package forecast

import (
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// result computes the forecast from the simulated spans.
func (w *simulation) result() *Forecast {
	f := &Forecast{Spans: w.spans, Capacity: len(w.devices())}
	for _, s := range w.spans {
		f.Wall = max(f.Wall, s.End)
		f.Work += w.work(s)
	}
	f.GPUTime = used(w.spans)
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

// work returns the least GPU time that a job needs. For a job that shares GPUs, it is proportional
// to the job's part of the largest GPU's memory.
func (w *simulation) work(s Span) time.Duration {
	takes := (s.End - s.Start) * time.Duration(len(s.GPUs))
	if total := gpu.Largest(w.devices()); s.Job >= 0 && w.Batch.Jobs[s.Job].Spec.Request.Share && total > 0 {
		return time.Duration(float64(takes) * min(1, float64(s.Memory)/float64(total)))
	}
	return takes
}

// used returns the time that GPUs were in use, summed over GPUs.
func used(stays []Span) (sum time.Duration) {
	until := map[int]time.Duration{}
	for _, s := range stays { // in order of start
		for _, id := range s.GPUs {
			from := max(s.Start, until[id])
			sum += max(s.End-from, 0)
			until[id] = max(until[id], s.End)
		}
	}
	return sum
}

// longest returns the duration of the longest chain of jobs that run one after another, because of
// needs or a queue. Spans are in order of start, so each follows the ones it waited for.
func (w *simulation) longest() (longest time.Duration) {
	chain := make([]time.Duration, len(w.Batch.Jobs)) // by job: duration of the chain that ends with it
	queues := make([]time.Duration, len(w.Batch.Queues))
	for _, s := range w.spans {
		if s.Job < 0 {
			longest = max(longest, s.End)
			continue
		}
		j := &w.Batch.Jobs[s.Job]
		before := chain[s.Job] // the chain includes earlier attempts
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
