package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A death with the signature of a device's fault is charged only once it has happened on two
// devices: until then its job waits for another one, or until nothing else of the run is left.
// If it had one device, that is quarantined, unless the driver says that it contained the error.
//
// Without a signature a GPU is suspected when attempts die on it one after another, soon
// after their start and in ways that can be its fault. It is quarantined once one of their
// jobs has done better elsewhere. Until then a job that died is tried elsewhere, which spends no retry, and the
// suspect rests: a fast failure would free it for the next job at once.
const (
	suspectAfter = 3                // deaths in a row, not all of one job
	suspectFor   = 10 * time.Minute // unless one of their jobs is tried elsewhere before that
	maxDeaths    = 16               // remembered of one GPU
	maxEvidence  = 3                // causes of death named as evidence
)

// health is what this run has learned about the health of its devices.
type health struct {
	rows    []*row             // of devices on which the last attempts died
	resting []gpu.UUID         // suspects
	jobs    map[int32]*mishaps // by job
	news    []news             // quarantines that readings may not show yet
	errors  map[gpu.UUID]int   // uncorrectable ECC errors, as last read
	lost    map[gpu.UUID]bool  // fell off the bus, as last read
	told    map[gpu.UUID]told  // the last signature of each
}

// told is a signature of a device.
type told struct {
	at        time.Duration
	contained bool   // the device is sound
	why       string // by a log alone, that of this job: the next reading decides
	job       int32
}

// A row is the attempts that died on a device one after another.
type row struct {
	id     gpu.UUID
	deaths []death
	last   time.Duration // when the last died
}

type death struct {
	job     int32
	on      []gpu.UUID
	charged bool
	who     string // "train-1 (attempt 2)"
	cause   string // "SIGSEGV"
	better  string // how its job then did elsewhere, "train-1 succeeded on GPU 2"; or ""
}

// diagnose learns from the end of an attempt.
func (c *Core) diagnose(a *attempt, f state.Fact, ev Ended) {
	h := &c.health
	switch {
	case !c.onPool(a), c.contained(a, f):
	case c.died(a, f, ev):
		h.mishap(a, f)
		if c.signed(a, ev) {
			c.accuse(a, f)
		}
		if f.Seconds <= early.Seconds() {
			c.dies(a, f)
		}
	case f.Why != "" || f.ErrorType == state.ErrLost: // says nothing about the device
	default:
		if a.fault == theirs {
			h.mishap(a, f)
		}
		h.rows = slices.DeleteFunc(h.rows, func(r *row) bool { return slices.Contains(a.grant.UUIDs, r.id) })
		if f.State == state.Succeeded {
			h.better(a, "succeeded on "+gpuNumbers(a.grant.Indices))
		} else if f.Seconds > early.Seconds() {
			h.better(a, "ran for more than a minute on "+gpuNumbers(a.grant.Indices))
		}
	}
}

// toldOf returns the signature of a device of an attempt in the last minute, while it had it.
func (c *Core) toldOf(a *attempt) (t told) {
	for _, id := range a.grant.UUIDs {
		if n, any := c.health.told[id]; any && n.at >= max(a.began, c.now.Boot-early) && (t.at == 0 || t.contained) {
			t = n
		}
	}
	return t
}

// contained reports whether an attempt failed by an error after which its device is sound.
func (c *Core) contained(a *attempt, f state.Fact) bool {
	return f.ErrorType != "" && f.Why == "" && c.toldOf(a).contained
}

// signed reports whether the failure of an attempt has the signature of a device's fault.
func (c *Core) signed(a *attempt, ev Ended) bool {
	t := c.toldOf(a)
	return ev.Cause == DeviceFault || t.at > 0 && !t.contained
}

// accuse sets a device aside until a reading has shown whether it is at fault.
func (c *Core) accuse(a *attempt, f state.Fact) {
	h, m, fl := &c.health, c.health.of(a.job), f.Failure()
	m.suspects, m.signed = m.among(a), true
	if ids := a.grant.UUIDs; f.Uncharged != "" && len(ids) == 1 && c.another(a.job, ids) {
		h.told[ids[0]] = told{at: c.now.Boot, why: a.name + " died on it: " + fl.Cause(), job: a.job}
		c.reads.now = append(c.reads.now, ids[0])
	}
}

// dies adds a death to the rows of an attempt's devices.
func (c *Core) dies(a *attempt, f state.Fact) {
	h, fl, who := &c.health, f.Failure(), a.name
	if a.n > 1 {
		who += fmt.Sprintf(" (attempt %d)", a.n)
	}
	for _, id := range a.grant.UUIDs {
		i := slices.IndexFunc(h.rows, func(r *row) bool { return r.id == id })
		if i < 0 {
			i = len(h.rows)
			h.rows = append(h.rows, &row{id: id})
		}
		r := h.rows[i]
		if f.ErrorType == state.ErrLost && a.began < r.last {
			continue // one keeper's death is one, however many attempts go with it
		}
		r.deaths = append(r.deaths, death{job: a.job, on: a.grant.UUIDs, charged: f.Uncharged == "", who: who, cause: fl.Cause()})
		r.deaths = r.deaths[max(0, len(r.deaths)-maxDeaths):]
		r.last = c.now.Boot
	}
}

// better records how a job that died on other devices has done on those of a.
func (h *health) better(a *attempt, how string) {
	for _, r := range h.rows {
		for i := range r.deaths {
			if d := &r.deaths[i]; d.job == a.job && d.better == "" && !slices.Contains(a.grant.UUIDs, r.id) {
				d.better = a.name + " then " + how
			}
		}
	}
}

// enough reports whether so many attempts make a row.
func enough(deaths []death) bool {
	return len(deaths) >= suspectAfter && slices.ContainsFunc(deaths, func(d death) bool { return d.job != deaths[0].job })
}

// examine quarantines devices against which there is enough evidence, and finds out which
// have to rest until there is.
func (c *Core) examine() {
	h := &c.health
	h.resting = nil
	for id, t := range h.told {
		if t.why != "" {
			h.resting = append(h.resting, id)
		}
	}
	if len(h.rows) == 0 {
		return
	}
	for a := range c.live.started {
		if c.onPool(a) && a.job >= 0 && a.began > 0 && c.now.Boot-a.began >= early {
			h.better(a, "ran for more than a minute on "+gpuNumbers(a.grant.Indices))
		}
	}
	for _, r := range slices.Clone(h.rows) {
		i := slices.IndexFunc(r.deaths, func(d death) bool { return d.better != "" })
		switch {
		case !enough(r.deaths):
		case i >= 0:
			c.convict(r, r.deaths[i].better)
		case c.rests(r):
			h.resting = append(h.resting, r.id)
		}
	}
}

// rests reports whether a suspect is left alone: one of the jobs that died only there can
// still be tried elsewhere.
func (c *Core) rests(r *row) bool {
	only := slices.DeleteFunc(slices.Clone(r.deaths), func(d death) bool {
		return slices.ContainsFunc(c.health.places(d.job), func(id gpu.UUID) bool { return !slices.Contains(d.on, id) })
	})
	return c.now.Boot < r.last+suspectFor && enough(only) && slices.ContainsFunc(only, func(d death) bool {
		p := c.jobs[d.job].phase
		return p >= pending && p <= waiting && c.another(d.job, []gpu.UUID{r.id})
	})
}

// nextTrial calls by with the times at which a suspect is convicted or has rested enough.
func (c *Core) nextTrial(by func(time.Duration)) {
	for _, r := range c.health.rows {
		if !enough(r.deaths) {
			continue
		}
		by(r.last + suspectFor)
		for a := range c.live.started {
			if a.began > 0 && slices.ContainsFunc(r.deaths, func(d death) bool { return d.job == a.job }) {
				by(a.began + early)
			}
		}
	}
}

// convict quarantines a suspect, and gives back the retries that it cost.
func (c *Core) convict(r *row, better string) {
	h := &c.health
	h.rows = slices.DeleteFunc(h.rows, func(o *row) bool { return o == r })
	var jobs []int32
	for _, d := range r.deaths {
		if !slices.Contains(jobs, d.job) {
			jobs = append(jobs, d.job)
		}
		if j, m := &c.jobs[d.job], h.of(d.job); d.charged && j.failures > 0 && !j.phase.over() && m.excused < maxExcused {
			j.failures--
			m.excused++
		}
	}
	why := fmt.Sprintf("%d attempts of %d jobs in a row died on it", len(r.deaths), len(jobs))
	c.quarantine(r.id, why, append(r.evidence(), better))
}

// evidence names the attempts that died, with those that died alike together.
func (r *row) evidence() (list []string) {
	var causes []string
	for _, d := range r.deaths {
		if !slices.Contains(causes, d.cause) && len(causes) < maxEvidence {
			causes = append(causes, d.cause)
		}
	}
	for _, cause := range causes {
		var who []string
		for _, d := range r.deaths {
			if d.cause == cause {
				who = append(who, d.who)
			}
		}
		list = append(list, few(who)+": "+cause)
	}
	return list
}

// news is a quarantine that readings may not show yet.
type news struct {
	gpu.Quarantine
	since time.Duration // when it was published; 0 if it has not been
}

// quarantine keeps this user's jobs off a device for a while.
func (c *Core) quarantine(id gpu.UUID, why string, evidence []string) {
	q, begun := c.pool.Quarantine(c.now.Boot, c.now.Wall, id, why, evidence)
	if !begun {
		return
	}
	c.health.news = append(c.health.news, news{Quarantine: q})
	c.do(Quarantine{q})
	text := fmt.Sprintf("GPU %s is quarantined until %s: %s", c.pool.Label(id), q.Until.Local().Format("15:04"), why)
	if len(evidence) > 0 {
		text += " (" + strings.Join(evidence, "; ") + ")"
	}
	c.do(Warn{Text: fmt.Sprintf("%s; gpurun gpus --clear %d lifts that", text, q.Index)})
	c.refill = true
}

func (ev Published) on(c *Core) {
	for i := range c.health.news {
		if n := &c.health.news[i]; n.UUID == ev.UUID {
			n.since = c.now.Boot
		}
	}
}

// unpublished adds to a reading the quarantines that it cannot show yet. One that is
// missing from a later reading has been lifted.
func (c *Core) unpublished(seen *gpu.Observation) {
	h := &c.health
	if seen.Sick == nil {
		return
	}
	h.news = slices.DeleteFunc(h.news, func(n news) bool { return n.since > 0 && n.since < seen.At })
	for _, n := range h.news {
		seen.Sick = append(seen.Sick, n.Quarantine)
	}
}

// vitals quarantines devices whose readings convict them.
func (c *Core) vitals(seen gpu.Observation, quick bool) {
	h := &c.health
	for i := range seen.Readings {
		r := &seen.Readings[i]
		convict := func(why string) {
			h.told[r.UUID] = told{at: c.now.Boot}
			c.quarantine(r.UUID, why, nil)
		}
		if r.Lost && !h.lost[r.UUID] {
			convict(r.Err)
		}
		if h.lost[r.UUID] = r.Lost; r.Health != nil {
			if x := r.Health.Xid; x == gpu.Contained {
				if t := h.told[r.UUID]; t.why != "" {
					*h.of(t.job) = mishaps{excused: h.of(t.job).excused}
					if c.jobs[t.job].phase == ready {
						c.makeReady(t.job)
					}
				}
				h.told[r.UUID] = told{at: c.now.Boot, contained: true}
			} else if x > 0 {
				convict(fmt.Sprintf("the driver reported the critical error Xid %d", x))
			}
			if n := r.Health.Uncorrected; n >= 0 {
				t := h.told[r.UUID] // a contained error counts, too
				if before, known := h.errors[r.UUID]; known && n > before && (!t.contained || c.now.Boot-t.at > early) {
					convict(fmt.Sprintf("its count of uncorrectable ECC errors rose from %d to %d", before, n))
				}
				h.errors[r.UUID] = n
			}
		}
		if t := h.told[r.UUID]; t.why != "" && !quick && r.Err == "" && seen.At >= t.at {
			convict(t.why)
		}
	}
}

// maxExcused is how many failures of one job spend no retry in a run.
const maxExcused = 3

// mishaps are what befell a job that was not, or may not have been, its fault.
type mishaps struct {
	excused int // failures that spent no retry

	signed   bool       // it died with the signature of a device's fault
	suspects []gpu.UUID // the devices on which it did so each time

	on   []gpu.UUID // devices on which it happened
	died bool       // it died on one of them
	away bool       // it is to be tried on others
}

// of returns a job's mishaps, to be changed.
func (h *health) of(job int32) *mishaps {
	if h.jobs[job] == nil {
		h.jobs[job] = &mishaps{}
	}
	return h.jobs[job]
}

// among returns the devices on which a job has died with a signature each time, if its attempt
// a died like that, too.
func (m *mishaps) among(a *attempt) []gpu.UUID {
	if m == nil || !m.signed {
		return a.grant.UUIDs
	}
	return slices.DeleteFunc(slices.Clone(m.suspects), func(id gpu.UUID) bool { return !slices.Contains(a.grant.UUIDs, id) })
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
		return c.signed(a, ev) || !slices.Contains(asked, f.Signal)
	case state.ErrExit:
		return c.signed(a, ev) || f.ExitCode != nil && slices.Contains(crashes, *f.ExitCode)
	}
	return false
}

// excused returns why a failure spends no retry, or "". What the attempt held has been
// given back.
func (c *Core) excused(a *attempt, f state.Fact, ev Ended) string {
	if !c.begun {
		return ev.Uncharged // which was so whatever becomes of its job
	}
	if a.job < 0 || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0 || c.jobs[a.job].quit {
		return ""
	}
	m := c.health.jobs[a.job]
	switch {
	case ev.Displaced:
		return ev.Uncharged
	case c.contained(a, f):
		return gpuNumbers(a.grant.Indices) + " contained a memory error"
	case c.died(a, f, ev) && c.signed(a, ev):
		if len(m.among(a)) == 0 {
			return "" // it died on two devices: it is to blame
		}
		return gpuNumbers(a.grant.Indices) + " may be at fault"
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
