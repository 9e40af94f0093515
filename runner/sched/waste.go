package sched

import (
	"math"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// A wasting is GPU time that this run cannot use although a job waits for it, since others
// are on the GPUs or a rule keeps the job off: what the run's history shows as lost.
type wasting struct {
	waits bool          // a job waits for GPUs
	on    []obstacle    // a row for each GPU that it cannot have now
	since time.Duration // that is so
	sum   []state.Loss  // since the last start
}

// An obstacle is why the first waiting job cannot have a GPU.
type obstacle struct {
	id gpu.UUID
	state.Loss
}

// wasteEvery is how often that is looked at while a job waits.
const wasteEvery = time.Second

// waste adds up what is lost while the first job waits. It stays in Core since it asks for the reasons why
// that job waits.
func (c *Core) waste() {
	w := &c.wasted
	waits := c.waiter.id >= 0 && c.pool != nil && c.draining == ""
	if waits == w.waits && (!waits || c.now.Boot-w.since < wasteEvery) {
		return
	}
	for _, o := range w.on {
		o.Seconds = (c.now.Boot - w.since).Seconds()
		w.sum = o.AddTo(w.sum)
	}
	w.waits, w.since, w.on = waits, c.now.Boot, w.on[:0]
	if !waits {
		return
	}
	for _, v := range c.pool.Admit(c.now.Boot, c.request(c.waiter.id)) {
		no := c.whyNotOn(c.waiter.id, v)
		ours := v.Ours || no.code == gpu.Held || no.code == gpu.Releasing || no.code == gpu.Unread || no.wait == schema.WaitKept
		if no.text != "" && !v.Never && !ours {
			w.on = append(w.on, obstacle{v.UUID, state.Loss{Code: no.code, User: no.user}})
		}
	}
}

// take returns what was lost, and begins anew. What is less than a second counts next time.
func (w *wasting) take() (all []state.Loss) {
	var rest []state.Loss
	for _, l := range w.sum {
		if l.Seconds >= 1 {
			l.Seconds = math.Round(1000*l.Seconds) / 1000
			all = append(all, l)
		} else {
			rest = append(rest, l)
		}
	}
	w.sum = rest
	return all
}
