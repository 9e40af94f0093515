package sched

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"gpurun/state"
)

// How many waiting jobs, queues and groups of similar failures a snapshot shows.
const (
	maxWaiting = 20
	maxQueues  = 50
	maxAlike   = 5
	maxHeld    = 20
	maxRivals  = 8
)

// Snapshot returns the state of the run for display.
func (c *Core) Snapshot(now Now) state.Snapshot {
	c.now = now
	s := state.Snapshot{
		At: now.Wall, Total: c.total, Counts: map[state.Phase]int{}, Running: []state.View{}, Draining: c.draining, GPUErr: c.reads.err,
		ETA: c.eta(), Alike: c.alike.Frequent(maxAlike), Held: c.viewHeld(), Queues: c.viewQueues(), Waiting: c.viewWaiting(),
	}
	if c.pool != nil {
		s.Rivals = c.pool.Waiting(maxRivals)
	}
	for p := pending; p < phaseCount; p++ {
		if n := c.counts[p]; n > 0 {
			s.Counts[p.public()] += n
		}
	}
	for _, a := range c.live.all {
		v := a.view()
		v.Takes, _ = c.kin(a.job).Took()
		s.Running = append(s.Running, v)
	}
	c.viewHead(&s)
	// Readings too old to rely on matter only while a job waits for a GPU.
	if age := now.Boot - c.reads.answered; c.waiter.id >= 0 && c.reads.ever && age > 3*max(c.b.Settings.Poll, time.Second) {
		s.GPUStale = age
	}
	return s
}

func (a *attempt) view() state.View {
	v := state.View{
		Job: a.name, ID: int(a.job), UniID: a.uniID, Attempt: int(a.n), Phase: state.Running, Started: a.start, PID: a.pid,
		GPUs: append([]int{}, a.grant.Indices...), Memory: a.grant.Memory, Close: a.grant.Close, Used: a.used(), Log: a.log, Stop: a.stop,
	}
	if a.background != "" {
		v.Note = "in the background: " + a.background
	}
	return v
}

// viewWaiting returns the earliest retries.
func (c *Core) viewWaiting() (views []state.View) {
	for left := slices.Clone(c.backoff); len(left) > 0 && len(views) < maxWaiting; {
		if d := heap.Pop(&left).(due); c.jobs[d.id].phase == waiting {
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

// viewQueues returns the named queues that still have work.
func (c *Core) viewQueues() (views []state.QueueView) {
	for q := range c.queues {
		if len(views) == maxQueues {
			break
		}
		v := state.QueueView{Name: c.b.QueueName(int32(q)), Busy: c.inQueue(int32(q))}
		for _, id := range c.queues[q].jobs {
			if p := c.jobs[id].phase; p != unselected && !p.over() {
				v.Left++
			}
		}
		if v.Left > 0 || v.Busy != "" {
			views = append(views, v)
		}
	}
	return views
}

// Why returns what a job that has not started is waiting for, using the same tests that
// starting uses, or "" if nothing.
func (c *Core) Why(now Now, job int) string {
	c.now = now
	id := int32(job)
	switch p := c.jobs[id].phase; {
	case p == waiting:
		return c.whyRetry(id)
	case p == blocked:
		return c.whyBlocked(id)
	case p == held:
		return c.whyHeld(id)
	case p != pending && p != ready:
		return ""
	case c.draining != "":
		return "nothing more starts: " + c.draining
	case p == ready:
		return c.whyReady(id)
	case !c.begun:
		return "looking for attempts of an earlier run"
	}
	if b := c.barrier(id); b != nil {
		return b.words(c, id)
	}
	return ""
}

func (c *Core) whyRetry(id int32) string {
	for _, d := range c.backoff {
		if d.id == id {
			left, unit := max(d.at-c.now.Boot, 0), time.Second
			if left < 10*time.Second {
				unit = 100 * time.Millisecond
			}
			return fmt.Sprintf("attempt %d in %s", c.jobs[id].attempt+1, left.Round(unit))
		}
	}
	return ""
}

func (c *Core) whyBlocked(id int32) string {
	for _, n := range c.b.Jobs[id].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected && !c.succeededBefore(n):
			return c.whyMissing(n)
		case p.over() && !p.good() && p != interrupted:
			return fmt.Sprintf("need %s: %s", c.name(n), p.public())
		}
	}
	return "it and other jobs wait for each other"
}
