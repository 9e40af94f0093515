package sched

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A job's death with the signature of a device fault does not spend a retry until the job has died
// this way on two devices. Until then, the job waits for another device, or until no other job of
// the run is left. If the attempt had one device, that device is quarantined, unless the driver
// reports that the device contained the error.
//
// Without a signature, a GPU is suspected when attempts die on it one after another, soon after
// their start and in ways that can be its fault. The GPU is quarantined once one of their jobs has
// done better elsewhere. Until then, a job that died is tried elsewhere, which spends no retry, and
// the suspect rests, because a fast failure would immediately free it for the next job.
const (
	suspectAfter = 3                // deaths in a row, not all of one job
	suspectFor   = 10 * time.Minute // how long a suspect rests, unless its jobs are tried elsewhere sooner
	maxDeaths    = 16               // remembered per GPU
	maxEvidence  = 3                // causes of death named as evidence
)

// health decides, from the ends of attempts and from readings, which devices are at fault.
type health struct {
	series     []*series              // for devices on which the last attempts died
	resting    []gpu.UUID             // suspects
	jobs       map[int32]jobHealth    // by job
	fresh      []freshQuarantine      // quarantines that readings may not show yet
	errors     map[gpu.UUID]int       // uncorrectable ECC errors, as last read
	lost       map[gpu.UUID]bool      // fell off the bus, as last read
	signatures map[gpu.UUID]signature // the latest one of each device
}

func newHealth() health {
	return health{jobs: map[int32]jobHealth{}, errors: map[gpu.UUID]int{}, lost: map[gpu.UUID]bool{}, signatures: map[gpu.UUID]signature{}}
}

// A signature is a sign that a device had a fault.
type signature struct {
	at        time.Duration
	contained bool   // the device contained the error and is sound
	why       string // set if only the log of job shows the fault: the next reading decides
	job       int32
}

// A series lists the attempts that died on a device one after another.
type series struct {
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

// symptoms are what the end of an attempt shows about the health of its devices.
type symptoms struct {
	contained bool // it failed because of an error that its device contained
	signed    bool // it has the signature of a device's fault
	died      bool // it ended in a way that can be its device's fault
}

// symptoms judges the end of an attempt that had devices.
func (h *health) symptoms(now time.Duration, a *attempt, f state.Fact, ev Ended) symptoms {
	var last signature // the latest that a device had in the last minute, while the attempt had that device
	for _, id := range a.grant.UUIDs {
		if n, any := h.signatures[id]; any && n.at >= max(a.began, now-early) && (last.at == 0 || last.contained) {
			last = n
		}
	}
	s := symptoms{contained: f.ErrorType != "" && f.Why == "" && last.contained, signed: ev.Cause == DeviceFault || last.at > 0 && !last.contained}
	if a.adopted || a.job < 0 || f.Why != "" || ev.Void {
		return s
	}
	switch f.ErrorType {
	case state.ErrLost:
		s.died = true
	case state.ErrSignal:
		s.died = s.signed || !slices.Contains(asked, f.Signal)
	case state.ErrExit:
		s.died = s.signed || f.ExitCode != nil && slices.Contains(crashes, *f.ExitCode)
	}
	return s
}

// ended records the end of an attempt. It returns the devices to read immediately, because only a
// log suggests that they are at fault. another reports whether a job could run on other devices.
func (h *health) ended(now time.Duration, a *attempt, s symptoms, f state.Fact, another func(int32, []gpu.UUID) bool) (suspects []gpu.UUID) {
	ids := a.grant.UUIDs
	switch {
	case s.contained:
	case s.died:
		h.recordFailure(a, f)
		if s.signed {
			m := h.jobs[a.job]
			m.suspects, m.signed = m.commonDevices(a), true
			h.jobs[a.job] = m
			if f.Uncharged != "" && len(ids) == 1 && another(a.job, ids) {
				suspects = ids // until a reading has shown whether it is at fault
				h.signatures[ids[0]] = signature{at: now, why: a.name + " died on it: " + f.Failure().Cause(), job: a.job}
			}
		}
		if f.Seconds <= early.Seconds() {
			h.recordDeath(now, a, f)
		}
	case f.Why != "" || f.ErrorType == state.ErrLost: // such an end does not depend on the device
	default:
		if a.fault == theirs {
			h.recordFailure(a, f)
		}
		h.series = slices.DeleteFunc(h.series, func(r *series) bool { return slices.Contains(ids, r.id) })
		if f.State == state.Succeeded {
			h.recordBetter(a, "succeeded on "+gpuNumbers(a.grant.Indices))
		} else if f.Seconds > early.Seconds() {
			h.recordBetter(a, "ran for more than a minute on "+gpuNumbers(a.grant.Indices))
		}
	}
	return suspects
}

// recordDeath adds a death to the series of an attempt's devices.
func (h *health) recordDeath(now time.Duration, a *attempt, f state.Fact) {
	fl, who := f.Failure(), a.name
	if a.n > 1 {
		who += fmt.Sprintf(" (attempt %d)", a.n)
	}
	for _, id := range a.grant.UUIDs {
		i := slices.IndexFunc(h.series, func(r *series) bool { return r.id == id })
		if i < 0 {
			i = len(h.series)
			h.series = append(h.series, &series{id: id})
		}
		r := h.series[i]
		if f.ErrorType == state.ErrLost && a.began < r.last {
			continue // a keeper's death counts once, however many attempts die with it
		}
		r.deaths = append(r.deaths, death{job: a.job, on: a.grant.UUIDs, charged: f.Uncharged == "", who: who, cause: fl.Cause()})
		r.deaths = r.deaths[max(0, len(r.deaths)-maxDeaths):]
		r.last = now
	}
}

// recordBetter records that a job that died on other devices did better on those of a.
func (h *health) recordBetter(a *attempt, how string) {
	for _, r := range h.series {
		for i := range r.deaths {
			if d := &r.deaths[i]; d.job == a.job && d.better == "" && !slices.Contains(a.grant.UUIDs, r.id) {
				d.better = a.name + " then " + how
			}
		}
	}
}

// enough reports whether these deaths make a device suspect.
func enough(deaths []death) bool {
	return len(deaths) >= suspectAfter && slices.ContainsFunc(deaths, func(d death) bool { return d.job != deaths[0].job })
}

// A quarantineDecision is a device to quarantine, with the reason.
type quarantineDecision struct {
	id       gpu.UUID
	why      string
	evidence []string
	charged  []int32 // the job of each death that spent a retry
}

// examine returns the first device with enough evidence against it. If there is none, it decides
// which devices rest. retriable reports whether a job can still be tried on other devices.
func (h *health) examine(now time.Duration, live iter.Seq[*attempt], retriable func(int32, []gpu.UUID) bool) (quarantineDecision, bool) {
	h.resting = nil
	for id, t := range h.signatures {
		if t.why != "" {
			h.resting = append(h.resting, id)
		}
	}
	if len(h.series) == 0 {
		return quarantineDecision{}, false
	}
	for a := range live {
		if len(a.grant.UUIDs) > 0 && a.job >= 0 && a.began > 0 && now-a.began >= early {
			h.recordBetter(a, "ran for more than a minute on "+gpuNumbers(a.grant.Indices))
		}
	}
	for k, r := range h.series {
		i := slices.IndexFunc(r.deaths, func(d death) bool { return d.better != "" })
		switch {
		case !enough(r.deaths):
		case i >= 0:
			h.series = slices.Delete(h.series, k, k+1)
			return r.decide(r.deaths[i].better), true
		case h.rests(now, r, retriable):
			h.resting = append(h.resting, r.id)
		}
	}
	return quarantineDecision{}, false
}

// rests reports whether a suspect stays unused because one of the jobs that died only there can
// still be tried elsewhere.
func (h *health) rests(now time.Duration, r *series, retriable func(int32, []gpu.UUID) bool) bool {
	only := slices.DeleteFunc(slices.Clone(r.deaths), func(d death) bool {
		return slices.ContainsFunc(h.jobs[d.job].on, func(id gpu.UUID) bool { return !slices.Contains(d.on, id) })
	})
	return now < r.last+suspectFor && enough(only) && slices.ContainsFunc(only, func(d death) bool { return retriable(d.job, []gpu.UUID{r.id}) })
}

// nextTrial calls by with the times at which a suspect may be quarantined or has rested enough.
func (h *health) nextTrial(live iter.Seq[*attempt], by func(time.Duration)) {
	for _, r := range h.series {
		if !enough(r.deaths) {
			continue
		}
		by(r.last + suspectFor)
		for a := range live {
			if a.began > 0 && slices.ContainsFunc(r.deaths, func(d death) bool { return d.job == a.job }) {
				by(a.began + early)
			}
		}
	}
}

// decide returns the quarantine of a suspect after one of its jobs did better elsewhere.
func (r *series) decide(better string) quarantineDecision {
	v := quarantineDecision{id: r.id, evidence: append(r.evidence(), better)}
	var jobs []int32
	for _, d := range r.deaths {
		if !slices.Contains(jobs, d.job) {
			jobs = append(jobs, d.job)
		}
		if d.charged {
			v.charged = append(v.charged, d.job)
		}
	}
	v.why = fmt.Sprintf("%d attempts in a row, of %d jobs, died on it", len(r.deaths), len(jobs))
	return v
}

// evidence lists the attempts that died, grouped by cause.
func (r *series) evidence() (list []string) {
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
		list = append(list, joinSome(who)+": "+cause)
	}
	return list
}

// A freshQuarantine is a quarantine that readings may not show yet.
type freshQuarantine struct {
	gpu.Quarantine
	since time.Duration // when it was published; 0 if it has not been
}

// published records when other runs could first read a quarantine.
func (h *health) published(now time.Duration, id gpu.UUID) {
	for i := range h.fresh {
		if n := &h.fresh[i]; n.UUID == id {
			n.since = now
		}
	}
}

// unpublished adds to a reading the quarantines that it cannot show yet. A quarantine missing from
// a later reading was lifted.
func (h *health) unpublished(seen *gpu.Observation) {
	if seen.Quarantines == nil {
		return
	}
	h.fresh = slices.DeleteFunc(h.fresh, func(n freshQuarantine) bool { return n.since > 0 && n.since < seen.At })
	for _, n := range h.fresh {
		seen.Quarantines = append(seen.Quarantines, n.Quarantine)
	}
}

// observe returns the devices whose readings show a fault (found). It also returns the jobs that
// died of an error that turned out to be contained (cleared): they need not avoid their devices.
func (h *health) observe(now time.Duration, seen gpu.Observation, quick bool) (found []quarantineDecision, cleared []int32) {
	for i := range seen.Readings {
		r := &seen.Readings[i]
		convict := func(why string) {
			h.signatures[r.UUID] = signature{at: now}
			found = append(found, quarantineDecision{id: r.UUID, why: why})
		}
		if r.Lost && !h.lost[r.UUID] {
			convict(r.Err)
		}
		if h.lost[r.UUID] = r.Lost; r.Health != nil {
			if x := r.Health.Xid; x == gpu.Contained {
				if t := h.signatures[r.UUID]; t.why != "" {
					h.jobs[t.job] = jobHealth{excused: h.jobs[t.job].excused}
					cleared = append(cleared, t.job)
				}
				h.signatures[r.UUID] = signature{at: now, contained: true}
			} else if x > 0 {
				convict(fmt.Sprintf("the driver reported the critical error Xid %d", x))
			}
			if n := r.Health.Uncorrected; n >= 0 {
				t := h.signatures[r.UUID] // a contained error raises the count, too
				if before, known := h.errors[r.UUID]; known && n > before && (!t.contained || now-t.at > early) {
					convict(fmt.Sprintf("its count of uncorrectable ECC errors rose from %d to %d", before, n))
				}
				h.errors[r.UUID] = n
			}
		}
		if t := h.signatures[r.UUID]; t.why != "" && !quick && r.Err == "" && seen.At >= t.at {
			convict(t.why)
		}
	}
	return found, cleared
}

// maxExcused is how many failures of one job may spend no retry in a run.
const maxExcused = 3

// jobHealth records a job's failures that may not have been its fault.
type jobHealth struct {
	excused int // failures that spent no retry

	signed   bool       // it died with the signature of a device's fault
	suspects []gpu.UUID // devices that all such deaths have in common

	on   []gpu.UUID // devices on which it failed
	died bool       // it died on one of them
	away bool       // it must be tried on other devices
}

// commonDevices returns the devices common to all of a job's deaths with a signature, including
// that of a.
func (m jobHealth) commonDevices(a *attempt) []gpu.UUID {
	if !m.signed {
		return a.grant.UUIDs
	}
	return slices.DeleteFunc(slices.Clone(m.suspects), func(id gpu.UUID) bool { return !slices.Contains(a.grant.UUIDs, id) })
}

// avoid returns the devices that a job currently avoids, the likeliest to be at fault last.
func (h *health) avoid(job int32) gpu.Names {
	m := h.jobs[job]
	if !m.away {
		return ""
	}
	var names []string
	for _, suspect := range []bool{false, true} {
		for _, id := range m.on {
			if slices.Contains(m.suspects, id) == suspect {
				names = append(names, string(id))
			}
		}
	}
	return gpu.NamesOf(names)
}

// recordFailure records a failure in the jobHealth of a's job.
func (h *health) recordFailure(a *attempt, f state.Fact) {
	m := h.jobs[a.job]
	m.on = slices.Concat(m.on, a.grant.UUIDs)
	slices.Sort(m.on)
	m.on = slices.Compact(m.on)
	m.died, m.away = m.died || f.ErrorType != state.ErrOOM, f.Uncharged != ""
	h.jobs[a.job] = m
}

// asked lists the signals that ask a program to end; any other means that it crashed or was killed.
// crashes lists the exit codes with which a shell reports crashes.
var (
	asked   = []string{"SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM"}
	crashes = []int{128 + 4, 128 + 5, 128 + 6, 128 + 7, 128 + 8, 128 + 11} // ILL, TRAP, ABRT, BUS, FPE, SEGV
)

// excuse counts a failure that spends no retry. It returns false once the job has had too many.
func (h *health) excuse(job int32) bool {
	m := h.jobs[job]
	m.excused++
	h.jobs[job] = m
	return m.excused <= maxExcused
}

// exhausted reports whether a job was excused more often than a run allows.
func (h *health) exhausted(job int32) bool { return h.jobs[job].excused > maxExcused }

// signed reports whether a job died with the signature of a fault, always on the same device.
func (h *health) signed(job int32) bool {
	m := h.jobs[job]
	return m.signed && len(m.suspects) > 0
}

// excused returns why a failure spends no retry, or "". The reason is given, which comes from the
// edge, or one based on the health of the attempt's devices. sick names one of them that is
// quarantined, or is "".
func (h *health) excused(a *attempt, s symptoms, f state.Fact, given, sick string, another func(int32, []gpu.UUID) bool) string {
	m, blamed := h.jobs[a.job], gpuNumbers(a.grant.Indices)+" may be at fault"
	switch {
	case s.contained:
		return gpuNumbers(a.grant.Indices) + " contained a memory error"
	case s.died && s.signed:
		if len(m.commonDevices(a)) == 0 {
			return "" // the job died on two devices, so the job is to blame
		}
		return blamed
	case m.excused >= maxExcused:
		return ""
	case given != "":
		return given
	case a.fault == theirs:
		return "another user's process took its memory"
	case !s.died || !another(a.job, slices.Concat(m.on, a.grant.UUIDs)):
		return ""
	case sick != "":
		return "GPU " + sick + " is quarantined"
	case f.Seconds <= early.Seconds() && (!m.died || h.othersDied(a)):
		return blamed // a job that also died elsewhere is to blame, unless other jobs died on this device
	}
	return ""
}

// othersDied reports whether another job's attempt also died on a device of a.
func (h *health) othersDied(a *attempt) bool {
	return slices.ContainsFunc(h.series, func(r *series) bool {
		return slices.Contains(a.grant.UUIDs, r.id) && slices.ContainsFunc(r.deaths, func(d death) bool { return d.job != a.job })
	})
}
