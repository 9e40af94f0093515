package sched

import "gpurun/state"

// ForgetRequested makes jobs' last success count no longer, from the next run on.
type ForgetRequested struct{ Jobs []int }

// DoneRequested records jobs as succeeded without running them. Jobs that are running or have
// succeeded stay as they are.
type DoneRequested struct {
	Jobs    []int
	Without bool // count them as done even without their outputs
}

func (ForgetRequested) event() {}
func (DoneRequested) event()   {}

func (c *Core) forget(ids []int) {
	for _, id := range ids {
		if r := c.last(int32(id)); r != nil && !r.Forgotten {
			c.record(c.file(int32(id)), int32(id), ForgetFact(c.b.Jobs[id].Name, c.b.Jobs[id].Key.String(), c.now))
		}
	}
}

func (c *Core) done(ev DoneRequested) {
	for _, id := range ev.Jobs {
		j := &c.jobs[id]
		switch {
		case j.own > 0, j.phase == succeeded, j.phase == upToDate, j.phase == notNeeded:
		default:
			c.record(c.file(int32(id)), int32(id), DoneFact(c.b.Jobs[id].Name, c.b.Jobs[id].Key.String(), c.now, ev.Without))
			if j.phase == pending || j.phase == ready || j.phase == waiting || j.phase == held {
				c.refill = true // others may be waiting behind it
				c.end(int32(id), succeeded)
			}
		}
	}
}

// ForgetFact returns the fact that a job's last success no longer counts.
func ForgetFact(job, key string, now Now) state.Fact {
	return state.Fact{Kind: state.KindForget, Time: now.Wall, Job: job, Key: key}
}

// DoneFact returns the fact that a job's work was done outside gpurun. If without is set,
// it counts even though outputs are missing.
func DoneFact(job, key string, now Now, without bool) state.Fact {
	by := state.ByDone
	if without {
		by = state.ByDoneWithout
	}
	return state.Fact{
		Kind: state.KindEnd, Time: now.Wall, Job: job, Key: key,
		State: state.Succeeded, By: by,
	}
}
