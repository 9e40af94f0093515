package sched

import (
	"fmt"
	"slices"

	"gpurun/gpu"
	"gpurun/state"
)

// A fault says whose fault it was that an attempt ran out of GPU memory.
type fault int

const (
	unknown  fault = iota
	theirs         // another user took what the attempt was promised
	hopeless       // it took more than was promised, and no GPU has more
)

// maxHidden is how much memory may be in use by no visible process on a GPU that an attempt
// has to itself: displays and the driver take some.
const maxHidden = 512 * gpu.MiB

// company is who else is on one of an attempt's GPUs. It counts from when the attempt
// itself has been seen there: until then what is seen may be its own, in a container.
type company struct {
	before, now       []gpu.Process // when it started, and by the latest list
	hidden, hiddenNow gpu.Bytes     // likewise, in use by no visible process
	room              gpu.Bytes     // what it used and what was free, by the latest list; -1 if unknown
}

// settle notes who is on an attempt's GPUs when it starts.
func (a *attempt) settle(pool *gpu.Pool) {
	a.company = make([]company, len(a.grant.UUIDs))
	for i, id := range a.grant.UUIDs {
		procs, hidden := pool.Present(id), pool.Unseen(id)
		a.company[i] = company{before: procs, now: procs, hidden: hidden, hiddenNow: hidden, room: -1}
	}
}

// see notes who is there by a list, of which an attempt uses some memory.
func (m *company) see(r *gpu.Reading, uniID string, used gpu.Bytes) {
	if used <= 0 || r.Free < 0 {
		return
	}
	m.now = slices.DeleteFunc(slices.Clone(r.Processes), func(p gpu.Process) bool { return p.Attempt == uniID })
	m.hiddenNow, m.room = r.Unseen(), used+r.Free
}

// grown returns by how much what other users have there grew, and who grew most: nil for
// no visible process.
func (m *company) grown(pool *gpu.Pool) (all, most gpu.Bytes, who *gpu.Process) {
	all = max(0, m.hiddenNow-m.hidden)
	most = all
	for i := range m.now {
		p := &m.now[i]
		if p.Attempt != "" || pool.Own(p) {
			continue
		}
		by := max(0, p.Memory)
		for _, old := range m.before {
			if old.PID == p.PID {
				by -= max(0, old.Memory)
			}
		}
		if all += by; by > most {
			most, who = by, p
		}
	}
	for _, old := range m.before { // who has left made room
		gone := !slices.ContainsFunc(m.now, func(p gpu.Process) bool { return p.PID == old.PID })
		if gone && old.Attempt == "" && !pool.Own(&old) {
			all -= max(0, old.Memory)
		}
	}
	return all, most, who
}

// blame finds out whose fault it was that an attempt ran out of memory, and returns what
// to say about it.
func (c *Core) blame(a *attempt, cause Cause) string {
	if cause != GPUMemory || !c.onPool(a) {
		return c.crowded(a)
	}
	for i := range a.company {
		m := &a.company[i]
		all, by, who := m.grown(c.pool)
		// Without them there would have been what it was promised.
		if m.room < 0 || m.room >= a.grant.Memory || all < listStep || m.room+all+listStep < a.grant.Memory {
			continue
		}
		a.fault = theirs
		label, left := c.pool.Label(a.grant.UUIDs[i]), fmt.Sprintf("left it %s of the %s it was promised", m.room.Round(), a.grant.Memory.Asked())
		switch {
		case who == nil:
			return fmt.Sprintf("memory of no visible process grew by %s on GPU %s and %s", by.Round(), label, left)
		case slices.ContainsFunc(m.before, func(p gpu.Process) bool { return p.PID == who.PID }):
			return fmt.Sprintf("%s grew by %s on GPU %s and %s", c.whose(who), by.Round(), label, left)
		}
		return fmt.Sprintf("%s came to GPU %s meanwhile and %s", c.whose(who), label, left)
	}
	if why := c.hadTheLargest(a); why != "" {
		a.fault = hopeless
		return why
	}
	return c.crowded(a)
}

// hadTheLargest says that an attempt took more than it was promised, although it had GPUs
// to itself of which there are no larger ones; or "".
func (c *Core) hadTheLargest(a *attempt) string {
	most := gpu.Bytes(0)
	if a.job >= 0 && !a.grant.Share {
		most = c.most(c.request(a.job))
	}
	if most == 0 || a.peak <= a.grant.Memory && a.grant.Memory < most || len(a.company) == 0 || len(a.came) > 0 {
		return ""
	}
	total := gpu.Bytes(0)
	for i, m := range a.company {
		total = c.pool.Total(a.grant.UUIDs[i])
		if len(m.before)+len(m.now) > 0 || max(m.hidden, m.hiddenNow) > maxHidden || mostOf(total) < most {
			return ""
		}
	}
	return fmt.Sprintf("it had %s to itself, and no GPU that it may use has more memory (%s)", gpuNumbers(a.grant.Indices), total.Round())
}

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
	if !c.begun {
		return ev.Uncharged // which was so whatever becomes of its job
	}
	if a.job < 0 || c.draining != "" || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0 ||
		c.jobs[a.job].quit || c.isHeld(a.job) {
		return ""
	}
	m := c.health.jobs[a.job]
	switch {
	case ev.Displaced:
		return ev.Uncharged
	case m != nil && m.excused >= maxExcused:
		return ""
	case ev.Uncharged != "":
		return ev.Uncharged
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
