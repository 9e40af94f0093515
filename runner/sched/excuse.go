package sched

import (
	"slices"

	"gpurun/gpu"
	"gpurun/state"
)

// maxExcused is how many failures of one job spend no retry in a run.
const maxExcused = 3

// mishaps are what befell a job that was not, or may not have been, its fault.
type mishaps struct {
	excused int        // failures that spent no retry
	on      []gpu.UUID // devices on which it happened
	died    bool       // it died on one of them
	away    bool       // it is to be tried on others
}

// of returns a job's mishaps, to be changed.
func (h *health) of(job int32) *mishaps {
	if h.jobs[job] == nil {
		h.jobs[job] = &mishaps{}
	}
	return h.jobs[job]
}

// places returns the devices on which a job had mishaps.
func (h *health) places(job int32) []gpu.UUID {
	if m := h.jobs[job]; m != nil {
		return m.on
	}
	return nil
}

// avoid returns the devices on which a job is not to be tried again for now.
func (h *health) avoid(job int32) gpu.Names {
	m := h.jobs[job]
	if m == nil || !m.away {
		return ""
	}
	names := make([]string, len(m.on))
	for i, id := range m.on {
		names[i] = string(id)
	}
	return gpu.NamesOf(names)
}

// mishap records one of a's job.
func (h *health) mishap(a *attempt, f state.Fact) {
	m := h.of(a.job)
	m.on = slices.Concat(m.on, a.grant.UUIDs)
	slices.Sort(m.on)
	m.on = slices.Compact(m.on)
	m.died, m.away = m.died || f.ErrorType != state.ErrOOM, f.Uncharged != ""
}

// crashes are the signals of a program that crashed or was killed, rather than asked to
// end, and the exit codes with which a shell reports them.
var (
	asked   = []string{"SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM"}
	crashes = []int{128 + 4, 128 + 5, 128 + 6, 128 + 7, 128 + 8, 128 + 11} // ILL, TRAP, ABRT, BUS, FPE, SEGV
)

// died reports whether an attempt ended in a way that can be its GPU's fault.
func (c *Core) died(a *attempt, f state.Fact, ev Ended) bool {
	if !c.onPool(a) || a.adopted || a.job < 0 || f.Why != "" || ev.Void {
		return false
	}
	switch f.ErrorType {
	case state.ErrLost:
		return true
	case state.ErrSignal:
		return !slices.Contains(asked, f.Signal)
	case state.ErrExit:
		return ev.Cause == DeviceFault || f.ExitCode != nil && slices.Contains(crashes, *f.ExitCode)
	}
	return false
}

// excused returns why a failure spends no retry, or "". What the attempt held has been
// given back.
func (c *Core) excused(a *attempt, f state.Fact, ev Ended) string {
	if a.job < 0 || !c.begun || c.draining != "" || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0 ||
		c.jobs[a.job].quit || c.isHeld(a.job) {
		return ""
	}
	m := c.health.jobs[a.job]
	switch {
	case m != nil && m.excused >= maxExcused:
		return ""
	case a.fault == theirs:
		return "another user's process took its memory"
	case !c.died(a, f, ev) || !c.another(a.job, slices.Concat(c.health.places(a.job), a.grant.UUIDs)):
		return ""
	}
	for _, id := range a.grant.UUIDs {
		if _, sick := c.pool.Quarantined(c.now.Boot, id); sick {
			return "GPU " + c.pool.Label(id) + " is quarantined"
		}
	}
	// A job that died elsewhere too is to blame, unless others died there as well.
	if f.Seconds <= early.Seconds() && (m == nil || !m.died || c.othersDied(a)) {
		return gpuNumbers(a.grant.Indices) + " may be at fault"
	}
	return ""
}

// othersDied reports whether the last attempt of another job died on a device of a, too.
func (c *Core) othersDied(a *attempt) bool {
	return slices.ContainsFunc(c.health.rows, func(r *row) bool {
		return slices.Contains(a.grant.UUIDs, r.id) && slices.ContainsFunc(r.deaths, func(d death) bool { return d.job != a.job })
	})
}
