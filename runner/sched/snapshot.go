package sched

import (
	"fmt"
	"slices"
	"time"

	"gpurun/state"
)

// How many waiting jobs and queues a snapshot shows.
const (
	maxWaiting = 20
	maxQueues  = 50
)

// Snapshot returns the state of the run for display.
func (c *Core) Snapshot(now Now) state.Snapshot {
	was := c.now
	c.now = now
	defer func() { c.now = was }()
	s := state.Snapshot{At: now.Wall, Total: c.total, Counts: map[state.Phase]int{}, Running: []state.View{}, Draining: c.draining}
	for p := pending; p < phaseCount; p++ {
		if n := c.counts[p]; n > 0 {
			s.Counts[p.public()] += n
		}
	}
	for a := c.live.first; a != nil; a = a.next {
		s.Running = append(s.Running, a.view())
	}
	s.Waiting = c.viewWaiting()
	c.viewHead(&s)
	s.Queues = c.viewQueues()
	c.viewReadings(&s)
	s.Alike, s.Held = c.alike.Frequent(maxAlike), c.viewHeld()
	return s
}

func (a *attempt) view() state.View {
	v := state.View{
		Job: a.name, ID: int(a.job), UniID: a.uniID, Attempt: int(a.n), Phase: state.Running, Started: a.start, PID: a.pid,
		GPUs: append([]int{}, a.grant.Indices...), Memory: a.grant.Memory, Used: a.used(), Log: a.log, Stop: a.stop,
	}
	if a.background != "" {
		v.Note = "in the background: " + a.background
	}
	return v
}

// viewWaiting returns the earliest retries. It walks down the heap only as far as
// necessary.
func (c *Core) viewWaiting() []state.View {
	var views []state.View
	open := []int{0}
	for len(open) > 0 && len(views) < maxWaiting {
		first := 0
		for i := range open {
			if open[i] < len(c.backoff) && c.backoff[open[i]].before(c.backoff[open[first]]) {
				first = i
			}
		}
		at := open[first]
		open[first] = open[len(open)-1]
		open = open[:len(open)-1]
		if at >= len(c.backoff) {
			continue
		}
		for k := 2*at + 1; k <= 2*at+2 && k < len(c.backoff); k++ {
			open = append(open, k)
		}
		if d := c.backoff[at]; c.jobs[d.id].phase == waiting {
			views = append(views, state.View{
				Job: c.name(d.id), ID: int(d.id), Attempt: int(c.jobs[d.id].attempt) + 1, Phase: state.Waiting,
				GPUs: []int{}, Used: -1, NextAt: c.now.Wall.Add(d.at - c.now.Boot),
			})
		}
	}
	return views
}

// viewHead shows the first ready job that has not started, and why: it found no GPU, or a
// limit of this run holds it back whether or not it needs GPUs.
func (c *Core) viewHead(s *state.Snapshot) {
	if c.finished && c.gaveUp {
		s.Head, s.HeadID, s.HeadWhy = c.vain.Head, c.vain.HeadID, c.vain.HeadWhy
	}
	id := c.waiter.id
	if id < 0 {
		id = c.firstReady()
	}
	if id < 0 {
		return
	}
	why := c.whyReady(id)
	if why == "" {
		return
	}
	s.Head, s.HeadID, s.HeadWhy = c.name(id), int(id), why
	if len(c.waiter.kept) > 0 && id == c.waiter.id {
		s.Kept = fmt.Sprintf("kept for %s: %d of %d", s.Head, c.waiter.free, c.request(id).Min)
	}
}

// firstReady returns the first job in order that might start, or -1.
func (c *Core) firstReady() int32 {
	first := int32(-1)
	if c.draining != "" || c.finished {
		return first
	}
	for _, cl := range slices.Clone(c.classes.filled) { // head drops empty ones
		if id := c.head(cl); id >= 0 && (first < 0 || c.ranks.of(id) < c.ranks.of(first)) {
			first = id
		}
	}
	return first
}

// viewQueues returns the named queues that still have work.
func (c *Core) viewQueues() []state.QueueView {
	busy := map[int32]string{}
	for a := c.live.first; a != nil; a = a.next {
		if a.job >= 0 && c.b.Jobs[a.job].Queue >= 0 {
			busy[c.b.Jobs[a.job].Queue] = a.name
		}
	}
	var views []state.QueueView
	for q := range c.queues {
		if len(views) == maxQueues {
			break
		}
		if left := c.queues[q].left; left > 0 || busy[int32(q)] != "" {
			views = append(views, state.QueueView{Name: queueName(c.b.Queues[q]), Busy: busy[int32(q)], Left: left})
		}
	}
	return views
}

// viewReadings reports when the GPU readings are too old to rely on, but only while a job
// waits for a GPU, since otherwise nobody reads them.
func (c *Core) viewReadings(s *state.Snapshot) {
	r := &c.reads
	s.GPUErr = r.err
	if c.waiter.id < 0 || !r.ever {
		return
	}
	if age := c.now.Boot - r.answered; age > 3*max(c.b.Settings.Poll, time.Second) {
		s.GPUStale = age
	}
}
