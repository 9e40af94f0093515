package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A stray is an attempt on a GPU that it was not given: the hours it uses there belong
// to somebody else. All GPUs are checked soon after each start, when a script has
// chosen its GPU, and every so often after that. Every process list that is read for
// another reason is checked as well.
const (
	strayFirst  = 15 * time.Second
	straySecond = 60 * time.Second
	strayEvery  = 10 * time.Minute
)

// allowStray is the name under allow that keeps strays from being ended.
const allowStray = "stray"

// lookFor schedules the search for a running attempt on all GPUs.
func (c *Core) lookFor(a *attempt) {
	if c.pool == nil || !c.opts.Strays {
		return
	}
	a.lookAt = c.now.Boot + strayFirst
	if r := &c.reads; r.stray == 0 || a.lookAt < r.stray {
		r.stray = a.lookAt
	}
}

// strayLooked notes that all GPUs have been checked, and schedules the next check.
func (c *Core) strayLooked() {
	r := &c.reads
	if r.stray == 0 || r.stray > c.now.Boot {
		return
	}
	r.stray = 0
	for a := c.live.first; a != nil; a = a.next {
		if a.lookAt == 0 {
			continue
		}
		for a.lookAt <= c.now.Boot {
			if a.looks++; a.looks == 1 {
				a.lookAt += straySecond - strayFirst
			} else {
				a.lookAt += strayEvery
			}
		}
		if r.stray == 0 || a.lookAt < r.stray {
			r.stray = a.lookAt
		}
	}
}

// strays finds attempts on GPUs that are not theirs and ends them.
func (c *Core) strays(s gpu.Observation) {
	for i := range s.Readings {
		r := &s.Readings[i]
		if !r.Listed || r.Err != "" {
			continue
		}
		for k := range r.Processes {
			p := &r.Processes[k]
			if a := c.live.byID[p.Attempt]; p.Attempt != "" && a != nil && !slices.Contains(a.grant.UUIDs, r.UUID) {
				c.strayOn(a, r.UUID, p)
			}
		}
	}
}

// strayOn reports once that an attempt is on a GPU that is not its own, and ends it
// unless its job allows that. In our own pid namespace, where the driver may report the
// host's pids, the pid may match by chance: until some job has been seen on its own GPU,
// a stray is only reported. One that the engine has not found yet has to wait.
func (c *Core) strayOn(a *attempt, id gpu.UUID, p *gpu.Process) {
	if slices.Contains(a.strayed, id) || a.asked || a.stop != "" && !(a.stop == state.WhyStray && a.prior) {
		return
	}
	text := fmt.Sprintf("process %d%s is on GPU %s, but the job was given %s", p.PID, command(p), c.pool.Label(id), given(a))
	cure := "; remove the pin from the script (CUDA_VISIBLE_DEVICES, cuda:N, --gpu N), or pass {gpu} to it, or set gpu_ids"
	if p.Doubtful && !c.pidsTell {
		c.do(Warn{Text: a.name + ": apparently, " + text + cure})
		return
	}
	a.strayed = append(a.strayed, id)
	if a.job >= 0 && slices.Contains(c.spec(a.job).Allow, allowStray) {
		c.do(Warn{Text: a.name + ": " + text + cure})
		return
	}
	a.stray = text + cure
	c.do(Warn{Text: "stopping " + a.name + ": " + a.stray})
	c.endAttempt(a, state.WhyStray, false)
}

// command formats a process's command as " (python)", or "" if unknown.
func command(p *gpu.Process) string {
	if p.Command == "" {
		return ""
	}
	return " (" + p.Command + ")"
}

// given describes the GPUs an attempt was granted.
func given(a *attempt) string {
	if len(a.grant.Indices) == 0 {
		return "no GPU"
	}
	return gpuNumbers(a.grant.Indices)
}

// A guest is another process that came to a GPU while an attempt was there.
type guest struct {
	gpu.Process
	id gpu.UUID
}

func (g guest) is(id gpu.UUID, p *gpu.Process) bool { return g.id == id && g.PID == p.PID }

// guests notes who comes to the GPUs of this run's jobs, and warns once about each.
func (c *Core) guests(s gpu.Observation) {
	for i := range s.Readings {
		r := &s.Readings[i]
		if !r.Listed || r.Err != "" || !c.onGPU(r.UUID) {
			continue
		}
		c.known = slices.DeleteFunc(c.known, func(g guest) bool {
			return g.id == r.UUID && !slices.ContainsFunc(r.Processes, func(p gpu.Process) bool { return p.PID == g.PID })
		})
		for k := range r.Processes {
			if p := &r.Processes[k]; p.Attempt == "" {
				c.guest(r.UUID, p)
			}
		}
	}
}

// guest notes one process that is not ours. Until a job has been seen on its GPU, the
// process may be the job's own, in a container, so there is no warning.
func (c *Core) guest(id gpu.UUID, p *gpu.Process) {
	if slices.ContainsFunc(c.known, func(g guest) bool { return g.is(id, p) }) {
		c.recall(id, p)
		return
	}
	var names []string
	for a := c.live.first; a != nil; a = a.next {
		if i := slices.Index(a.grant.UUIDs, id); i >= 0 && i < len(a.seats) && a.seats[i].used > 0 {
			names = append(names, a.name)
			a.met(guest{*p, id})
		}
	}
	if len(names) == 0 {
		return
	}
	c.known = append(c.known, guest{*p, id})
	if c.comers++; c.comers <= maxGuestWarnings {
		c.do(Warn{Text: fmt.Sprintf("%s came to GPU %s, where %s is running", c.whose(p), c.pool.Label(id), few(names))})
	}
	if c.comers == maxGuestWarnings {
		c.do(Warn{Text: "not reporting any more processes that come to GPUs of this run, except when a job runs out of memory"})
	}
}

// Limits on guests: a neighbor may start a process every few seconds, for weeks.
const (
	maxGuestWarnings = 50 // per run
	maxGuests        = 16 // remembered per attempt: those with the most memory
	maxNamed         = 3  // listed in one message
)

// few joins the first maxNamed words and counts the rest.
func few(words []string) string {
	if more := len(words) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:maxNamed], ", "), more)
	}
	return strings.Join(words, ", ")
}

// met remembers a guest of an attempt.
func (a *attempt) met(g guest) {
	if len(a.came) == maxGuests {
		least := slices.MinFunc(a.came, func(x, y guest) int { return cmp.Compare(x.Memory, y.Memory) })
		a.came = slices.DeleteFunc(a.came, func(x guest) bool { return x.is(least.id, &least.Process) })
	}
	a.came = append(a.came, g)
}

// recall updates how much memory a known guest uses.
func (c *Core) recall(id gpu.UUID, p *gpu.Process) {
	for a := c.live.first; a != nil; a = a.next {
		for i := range a.came {
			if a.came[i].is(id, p) {
				a.came[i].Memory = max(a.came[i].Memory, p.Memory)
			}
		}
	}
}

// whose formats a process as "alice's python (pid 4711, 37 GiB)".
func (c *Core) whose(p *gpu.Process) string {
	who := p.User + "'s"
	switch {
	case c.pool.Own(p):
		who = "your own"
	case p.User == "" && p.UID >= 0:
		who = fmt.Sprintf("user %d's", p.UID)
	case p.User == "":
		who = "somebody's"
	}
	what := p.Command
	if what == "" {
		what = "process"
	}
	if p.Memory > 0 {
		return fmt.Sprintf("%s %s (pid %d, %s)", who, what, p.PID, p.Memory.Round())
	}
	return fmt.Sprintf("%s %s (pid %d)", who, what, p.PID)
}

// crowded describes who came to an attempt's GPUs while it was there, or returns "".
func (c *Core) crowded(a *attempt) string {
	slices.SortStableFunc(a.came, func(x, y guest) int { return cmp.Compare(y.Memory, x.Memory) })
	var words []string
	for _, g := range a.came {
		words = append(words, fmt.Sprintf("%s came to GPU %s meanwhile", c.whose(&g.Process), c.pool.Label(g.id)))
	}
	return few(words)
}

// onGPU reports whether a started attempt of this run is on a GPU.
func (c *Core) onGPU(id gpu.UUID) bool {
	for a := c.live.first; a != nil; a = a.next {
		if a.uniID != "" && slices.Contains(a.grant.UUIDs, id) {
			return true
		}
	}
	return false
}

// greet marks processes that are on an attempt's GPUs when it starts as known, so that
// they do not count as having come later.
func (c *Core) greet(a *attempt) {
	for _, id := range a.grant.UUIDs {
		if c.onGPU(id) {
			continue
		}
		c.known = slices.DeleteFunc(c.known, func(g guest) bool { return g.id == id })
		for _, p := range c.pool.Present(id) {
			c.known = append(c.known, guest{p, id})
		}
	}
}
