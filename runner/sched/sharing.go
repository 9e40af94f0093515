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

// A stray is an attempt on a GPU outside its grant, where it may slow another user's job. All GPUs
// are checked soon after each start, when a script has chosen its GPU, and regularly after that.
// Process lists that are read for other reasons are checked too.
const (
	strayFirst  = 15 * time.Second
	straySecond = 60 * time.Second
	strayEvery  = 10 * time.Minute
)

// AllowStray is the value of allow that prevents strays from being ended.
const AllowStray = "stray"

// lookFor schedules the search of all GPUs for an attempt's processes. Simulated GPUs have only the
// processes that belong there.
func (c *Core) lookFor(a *attempt) {
	if c.pool != nil && !c.opts.Sim {
		a.lookAt = c.now.Boot + strayFirst
	}
}

// strayDue returns when to check all GPUs; 0 for never.
func (l *attempts) strayDue() (at time.Duration) {
	for _, a := range l.all {
		if a.lookAt > 0 && (at == 0 || a.lookAt < at) {
			at = a.lookAt
		}
	}
	return at
}

// strayLooked records that all GPUs have been checked, and schedules the next checks.
func (l *attempts) strayLooked(now time.Duration) {
	for _, a := range l.all {
		for a.lookAt > 0 && a.lookAt <= now {
			if a.looks++; a.looks == 1 {
				a.lookAt += straySecond - strayFirst
			} else {
				a.lookAt += strayEvery
			}
		}
	}
}

// sharing finds processes on GPUs outside their grants: strays of this run, and newcomers on the
// GPUs of its attempts.
type sharing struct {
	pidsTell bool       // a job was seen on its own GPU, so the driver reports pids of our namespace
	known    []newcomer // already reported, or on this run's GPUs before its jobs
	count    int        // number of newcomers so far
}

// A strayFinding is a warning about a stray, and whether to end it.
type strayFinding struct {
	*attempt
	warning string
	end     bool
}

// strays finds attempts on a GPU outside their grants. They must end unless their jobs allow
// strays. Each is reported once. In a pid namespace of our own, the driver may report the host's
// pids, and a pid may match by chance: until some job has been seen on its own GPU, a stray is only
// reported. An attempt that the engine has not found yet is checked later.
func (s *sharing) strays(r *gpu.Reading, live *attempts, pool *gpu.Pool, allowed func(job int32) bool) (found []strayFinding) {
	for i := range r.Processes {
		p := &r.Processes[i]
		a := live.byID[p.Attempt]
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
		text := fmt.Sprintf("process %d%s uses GPU %s, but the job was assigned %s; remove the pin from the script "+
			"(CUDA_VISIBLE_DEVICES, cuda:N, --gpu N), pass {gpu} to it, or set gpu_ids", p.PID, command, pool.Label(r.UUID), given)
		if p.Doubtful && !s.pidsTell {
			found = append(found, strayFinding{a, a.name + ": apparently, " + text, false})
			continue
		}
		a.strayed = append(a.strayed, r.UUID)
		if a.job >= 0 && allowed(a.job) {
			found = append(found, strayFinding{a, a.name + ": " + text, false})
			continue
		}
		a.stray = text
		found = append(found, strayFinding{a, "stopping " + a.name + ": " + text, true})
	}
	return found
}

// A newcomer is another process that came to a GPU while an attempt was there.
type newcomer struct {
	gpu.Process
	id gpu.UUID
}

func (n newcomer) is(o newcomer) bool { return n.id == o.id && n.PID == o.PID }

// Limits on newcomers: a neighbor may start a process every few seconds, for weeks.
const (
	maxNewcomerWarnings = 50 // per run
	maxNewcomers        = 16 // remembered per attempt: those with the most memory
	maxNamed            = 3  // listed in one message
)

// newcomers returns the warnings about processes that have come to a GPU of this run's attempts.
func (s *sharing) newcomers(r *gpu.Reading, live *attempts, pool *gpu.Pool) (warnings []string) {
	if !slices.Contains(live.inUse(), r.UUID) {
		return nil
	}
	s.known = slices.DeleteFunc(s.known, func(n newcomer) bool {
		return n.id == r.UUID && !slices.ContainsFunc(r.Processes, func(p gpu.Process) bool { return p.PID == n.PID })
	})
	for _, p := range r.Processes {
		n := newcomer{p, r.UUID}
		switch {
		case p.Attempt != "":
		case slices.ContainsFunc(s.known, n.is):
			live.update(n)
		default:
			warnings = append(warnings, s.comes(n, live, pool)...)
		}
	}
	return warnings
}

// comes returns the warnings about a foreign process. Until a job has been seen on its GPU, there
// is no warning, since the process may be the job's own, in a container.
func (s *sharing) comes(n newcomer, live *attempts, pool *gpu.Pool) (warnings []string) {
	var names []string
	for _, a := range live.all {
		if i := slices.Index(a.grant.UUIDs, n.id); i >= 0 && i < len(a.gpuUses) && a.gpuUses[i].used > 0 {
			names = append(names, a.name)
			a.met(n)
		}
	}
	if len(names) == 0 {
		return nil
	}
	s.known = append(s.known, n)
	if s.count++; s.count <= maxNewcomerWarnings {
		warnings = append(warnings, fmt.Sprintf("%s started on GPU %s, next to %s", describeProcess(&n.Process, pool), pool.Label(n.id), joinSome(names)))
	}
	if s.count == maxNewcomerWarnings {
		warnings = append(warnings, "no longer reporting other processes on GPUs of this run, except when a job runs out of memory")
	}
	return warnings
}

// joinSome joins the first maxNamed words and counts the rest.
func joinSome(words []string) string {
	if more := len(words) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:maxNamed], ", "), more)
	}
	return strings.Join(words, ", ")
}

// met records a newcomer on an attempt's GPUs.
func (a *attempt) met(n newcomer) {
	if len(a.came) == maxNewcomers {
		least := slices.MinFunc(a.came, func(x, y newcomer) int { return cmp.Compare(x.Memory, y.Memory) })
		a.came = slices.DeleteFunc(a.came, least.is)
	}
	a.came = append(a.came, n)
}

// update records how much memory a known newcomer uses.
func (l *attempts) update(n newcomer) {
	for _, a := range l.all {
		for i := range a.came {
			if a.came[i].is(n) {
				a.came[i].Memory = max(a.came[i].Memory, n.Memory)
			}
		}
	}
}

// describeProcess formats a process as "alice's python (pid 4711, 37 GiB)".
func describeProcess(p *gpu.Process, pool *gpu.Pool) string {
	who := p.User + "'s"
	switch {
	case pool.Own(p):
		who = "your own"
	case p.User == "" && p.UID >= 0:
		who = fmt.Sprintf("user %d's", p.UID)
	case p.User == "":
		who = "another user's"
	}
	memory := ""
	if p.Memory > 0 {
		memory = ", " + p.Memory.Round()
	}
	return fmt.Sprintf("%s %s (pid %d%s)", who, cmp.Or(p.Command, "process"), p.PID, memory)
}

// describeNewcomers describes the processes that came to an attempt's GPUs, or returns "".
func describeNewcomers(a *attempt, pool *gpu.Pool) string {
	slices.SortStableFunc(a.came, func(x, y newcomer) int { return cmp.Compare(y.Memory, x.Memory) })
	var words []string
	for _, n := range a.came {
		words = append(words, fmt.Sprintf("%s started on GPU %s", describeProcess(&n.Process, pool), pool.Label(n.id)))
	}
	if words == nil {
		return ""
	}
	return "meanwhile, " + joinSome(words)
}

// A fault is the party at fault when an attempt ran out of GPU memory or did not start.
type fault int

const (
	unknown  fault = iota
	theirs         // another user took what the attempt was promised
	hopeless       // it took more than was promised, and no GPU has more
	refused        // its engine refuses its request
)

// maxHidden is how much memory may be in use by no visible process on a GPU that an attempt
// has to itself: displays and the driver take some.
const maxHidden = 512 * gpu.MiB

// neighbors tracks other users' memory on one of an attempt's GPUs. That memory counts as theirs
// only once the attempt has been seen there. Until then, it may be the attempt's own, in a
// container.
type neighbors struct {
	before, now       []gpu.Process // when the attempt started, and in the latest list
	hidden, hiddenNow gpu.Bytes     // likewise, in use by no visible process
	room              gpu.Bytes     // the attempt's memory plus free memory, in the latest list; -1 if unknown
}

// begin records the processes on an attempt's GPUs when the attempt starts: they are not newcomers.
func (s *sharing) begin(a *attempt, live *attempts, pool *gpu.Pool) {
	used := live.inUse()
	a.company = make([]neighbors, len(a.grant.UUIDs))
	for i, id := range a.grant.UUIDs {
		procs, hidden := pool.Present(id), pool.Unseen(id)
		a.company[i] = neighbors{before: procs, now: procs, hidden: hidden, hiddenNow: hidden, room: -1}
		if slices.Contains(used, id) {
			continue
		}
		s.known = slices.DeleteFunc(s.known, func(n newcomer) bool { return n.id == id })
		for _, p := range procs {
			s.known = append(s.known, newcomer{p, id})
		}
	}
}

// add records a list of a GPU's processes; used is the attempt's own memory.
func (m *neighbors) add(r *gpu.Reading, uniID string, used gpu.Bytes) {
	if used <= 0 || r.Free < 0 {
		return
	}
	m.now = slices.DeleteFunc(slices.Clone(r.Processes), func(p gpu.Process) bool { return p.Attempt == uniID })
	m.hiddenNow, m.room = r.Unseen(), used+r.Free
}

// growth returns the growth of other users' memory, and that of the process that grew most; who is
// nil if that process is not visible.
func (m *neighbors) growth(pool *gpu.Pool) (all, most gpu.Bytes, who *gpu.Process) {
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
	for _, old := range m.before { // subtract the memory that ended processes freed
		gone := !slices.ContainsFunc(m.now, func(p gpu.Process) bool { return p.PID == old.PID })
		if gone && old.Attempt == "" && !pool.Own(&old) {
			all -= max(0, old.Memory)
		}
	}
	return all, most, who
}

// blame returns the party at fault when an attempt ran out of memory, with the reason. most returns
// the most memory that any GPU could ever offer a job. pool is nil if the run grants no devices.
func blame(a *attempt, cause Cause, pool *gpu.Pool, most func(job int32) gpu.Bytes) (fault, string) {
	if cause != GPUMemory || pool == nil {
		return unknown, describeNewcomers(a, pool)
	}
	for i := range a.company {
		m := &a.company[i]
		all, by, who := m.growth(pool)
		// Other users are at fault only if their growth took memory that the job was promised.
		if m.room < 0 || m.room >= a.grant.Memory || all < listStep || m.room+all+listStep < a.grant.Memory {
			continue
		}
		label, left := pool.Label(a.grant.UUIDs[i]), fmt.Sprintf("left the job %s of its %s", m.room.Round(), a.grant.Memory.Asked())
		switch {
		case who == nil:
			return theirs, fmt.Sprintf("memory in use by no visible process grew by %s on GPU %s and %s", by.Round(), label, left)
		case slices.ContainsFunc(m.before, func(p gpu.Process) bool { return p.PID == who.PID }):
			return theirs, fmt.Sprintf("%s grew by %s on GPU %s and %s", describeProcess(who, pool), by.Round(), label, left)
		}
		return theirs, fmt.Sprintf("meanwhile, %s started on GPU %s and %s", describeProcess(who, pool), label, left)
	}
	if a.job >= 0 && !a.grant.Share {
		if why := hadTheLargest(a, pool, most(a.job)); why != "" {
			return hopeless, why
		}
	}
	return unknown, describeNewcomers(a, pool)
}

// hadTheLargest explains that an attempt with exclusive use of the largest GPUs used more memory
// than promised, or returns "".
func hadTheLargest(a *attempt, pool *gpu.Pool, most gpu.Bytes) string {
	if most == 0 || a.peak <= a.grant.Memory && a.grant.Memory < most || len(a.company) == 0 || len(a.came) > 0 {
		return ""
	}
	total := gpu.Bytes(0)
	for i, m := range a.company {
		total = pool.Total(a.grant.UUIDs[i])
		if len(m.before)+len(m.now) > 0 || max(m.hidden, m.hiddenNow) > maxHidden || gpu.MostOf(total) < most {
			return ""
		}
	}
	return fmt.Sprintf("it had %s to itself, and no GPU available to it has more memory (%s)", gpuNumbers(a.grant.Indices), total.Round())
}
