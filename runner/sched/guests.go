package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
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

// AllowStray is the name under allow that keeps strays from being ended.
const AllowStray = "stray"

// lookFor schedules the search for a running attempt on all GPUs. Simulated ones have
// only the processes that belong there.
func (c *Core) lookFor(a *attempt) {
	if c.pool != nil && !c.opts.Sim {
		a.lookAt = c.now.Boot + strayFirst
	}
}

// strayDue returns when to check all GPUs; 0 for never.
func (c *Core) strayDue() (at time.Duration) {
	for _, a := range c.live.all {
		if a.lookAt > 0 && (at == 0 || a.lookAt < at) {
			at = a.lookAt
		}
	}
	return at
}

// strayLooked notes that all GPUs have been checked, and schedules the next checks.
func (c *Core) strayLooked() {
	for _, a := range c.live.all {
		for a.lookAt > 0 && a.lookAt <= c.now.Boot {
			if a.looks++; a.looks == 1 {
				a.lookAt += straySecond - strayFirst
			} else {
				a.lookAt += strayEvery
			}
		}
	}
}

// strays finds attempts on a GPU that is not theirs and ends them, unless their job
// allows that. Each is reported once. In our own pid namespace, where the driver may
// report the host's pids, a pid may match by chance: until some job has been seen on its
// own GPU, a stray is only reported. One that the engine has not found yet has to wait.
func (c *Core) strays(r *gpu.Reading) {
	for i := range r.Processes {
		p := &r.Processes[i]
		a := c.live.byID[p.Attempt]
		if a == nil || slices.Contains(a.grant.UUIDs, r.UUID) || slices.Contains(a.strayed, r.UUID) || a.asked ||
			a.stop != "" && !(a.stop == state.WhyStray && a.prior) {
			continue
		}
		command, given := "", "no GPU"
		if p.Command != "" {
			command = " (" + p.Command + ")"
		}
		if len(a.grant.Indices) > 0 {
			given = gpuNumbers(a.grant.Indices)
		}
		text := fmt.Sprintf("process %d%s is on GPU %s, but the job was given %s; remove the pin from the script "+
			"(CUDA_VISIBLE_DEVICES, cuda:N, --gpu N), or pass {gpu} to it, or set gpu_ids", p.PID, command, c.pool.Label(r.UUID), given)
		if p.Doubtful && !c.pidsTell {
			c.do(Warn{Text: a.name + ": apparently, " + text})
			continue
		}
		a.strayed = append(a.strayed, r.UUID)
		if a.job >= 0 && slices.Contains(c.spec(a.job).Allow, AllowStray) {
			c.do(Warn{Text: a.name + ": " + text})
			continue
		}
		a.stray = text
		c.do(Warn{Text: "stopping " + a.name + ": " + text})
		c.endAttempt(a, state.WhyStray, false)
	}
}

// A guest is another process that came to a GPU while an attempt was there.
type guest struct {
	gpu.Process
	id gpu.UUID
}

func (g guest) is(o guest) bool { return g.id == o.id && g.PID == o.PID }

// Limits on guests: a neighbor may start a process every few seconds, for weeks.
const (
	maxGuestWarnings = 50 // per run
	maxGuests        = 16 // remembered per attempt: those with the most memory
	maxNamed         = 3  // listed in one message
)

// guests notes who comes to a GPU of this run's jobs.
func (c *Core) guests(r *gpu.Reading) {
	if !slices.Contains(c.inUse(), r.UUID) {
		return
	}
	c.known = slices.DeleteFunc(c.known, func(g guest) bool {
		return g.id == r.UUID && !slices.ContainsFunc(r.Processes, func(p gpu.Process) bool { return p.PID == g.PID })
	})
	for _, p := range r.Processes {
		g := guest{p, r.UUID}
		switch {
		case p.Attempt != "":
		case slices.ContainsFunc(c.known, g.is):
			c.recall(g)
		default:
			c.guest(g)
		}
	}
}

// guest warns once about a process that is not ours. Until a job has been seen on its
// GPU, the process may be the job's own, in a container, so there is no warning.
func (c *Core) guest(g guest) {
	var names []string
	for _, a := range c.live.all {
		if i := slices.Index(a.grant.UUIDs, g.id); i >= 0 && i < len(a.seats) && a.seats[i].used > 0 {
			names = append(names, a.name)
			a.met(g)
		}
	}
	if len(names) == 0 {
		return
	}
	c.known = append(c.known, g)
	if c.comers++; c.comers <= maxGuestWarnings {
		c.do(Warn{Text: fmt.Sprintf("%s came to GPU %s, where %s is running", c.whose(&g.Process), c.pool.Label(g.id), few(names))})
	}
	if c.comers == maxGuestWarnings {
		c.do(Warn{Text: "not reporting any more processes that come to GPUs of this run, except when a job runs out of memory"})
	}
}

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
		a.came = slices.DeleteFunc(a.came, least.is)
	}
	a.came = append(a.came, g)
}

// recall updates how much memory a known guest uses.
func (c *Core) recall(g guest) {
	for _, a := range c.live.all {
		for i := range a.came {
			if a.came[i].is(g) {
				a.came[i].Memory = max(a.came[i].Memory, g.Memory)
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
	memory := ""
	if p.Memory > 0 {
		memory = ", " + p.Memory.Round()
	}
	return fmt.Sprintf("%s %s (pid %d%s)", who, cmp.Or(p.Command, "process"), p.PID, memory)
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

// greet marks processes that are on an attempt's GPUs when it starts as known, so that
// they do not count as having come later.
func (c *Core) greet(a *attempt) {
	used := c.inUse()
	for _, id := range a.grant.UUIDs {
		if slices.Contains(used, id) {
			continue
		}
		c.known = slices.DeleteFunc(c.known, func(g guest) bool { return g.id == id })
		for _, p := range c.pool.Present(id) {
			c.known = append(c.known, guest{p, id})
		}
	}
}

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

// waste adds up what is lost while the first job waits.
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

// A fault says whose fault it was that an attempt ran out of GPU memory, or was not started.
type fault int

const (
	unknown  fault = iota
	theirs         // another user took what the attempt was promised
	hopeless       // it took more than was promised, and no GPU has more
	refused        // it asked for what its engine refuses
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
