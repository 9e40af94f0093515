package sched

import (
	"math"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// lostTime is GPU time that this run loses to other users or to a rule while one of its jobs waits
// for GPUs. The run's history shows it as lost.
type lostTime struct {
	waits bool          // a job waits for GPUs
	on    []obstacle    // one for each GPU that the job cannot have now
	since time.Duration // end of the time that sum includes
	sum   []state.Loss  // losses since the last start
}

// An obstacle is why the first waiting job cannot have a GPU.
type obstacle struct {
	id gpu.UUID
	state.Loss
}

// wasteEvery is how often lost time is updated while a job waits.
const wasteEvery = time.Second

// countLost adds up the time lost while the first job waits. It stays in Core because it needs the
// reasons for that wait.
func (c *Core) countLost() {
	w := &c.wasted
	waits := c.waiter.id >= 0 && c.draining == ""
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

// take returns and resets the lost time. It keeps losses of less than a second for the next call.
func (w *lostTime) take() (all []state.Loss) {
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
