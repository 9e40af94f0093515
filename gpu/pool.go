package gpu

import (
	"slices"
	"time"
)

// Rules are what a run as a whole may use. They never change during the run.
type Rules struct {
	IDs     []string      // managed devices: indices, UUIDs or unique UUID prefixes; empty for all
	Reserve int           // how many of the highest managed indices stay free for others
	MinGPUs int           // -1 if not given; with neither MinGPUs nor MaxGPUs, Reserve fixes indices
	MaxGPUs int           // -1 if not given
	Others  Others        // what another user's process on a device means
	Pick    Pick          // how to choose among devices that fit
	UID     int           // this user
	Poll    time.Duration // interval of readings, 0 for a minute; gaps over 1.5 intervals and over 15 s break watching
	AtOnce  bool          // judge utilization by the samples at hand, and say so in Verdict.Note: --no-wait, gpus, plan
}

// Others is the rule for devices that other users' processes are on.
type Others string

const (
	OthersAllow Others = "allow" // memory and utilization decide, empty devices first
	OthersAvoid Others = "avoid" // refuse devices with another user's process, or with memory in use by no visible process
)

// Pick names a policy for choosing among the devices that fit.
type Pick string

const (
	MostFree   Pick = "most-free"
	LeastUtil  Pick = "least-util"
	FirstFit   Pick = "first-fit"
	BestFit    Pick = "best-fit"
	RoundRobin Pick = "round-robin"
)

// A Verdict says whether a device admits a request now.
type Verdict struct {
	UUID   UUID
	Index  int
	OK     bool
	Reason string        // for people, if not OK: "71% busy, limit 30%"
	Never  bool          // waiting cannot help: not managed, wrong model, too small
	Until  time.Duration // CLOCK_BOOTTIME at which time alone may change the verdict; 0 for never
	Free   Bytes         // free minus promised, as judged; -1 if unknown
	Ours   bool          // refused only because this run's own attempts hold it
	Note   string        // if OK: caveat, "watched for only 5 of 60 s"; usually ""
}

// A Pool knows the managed devices, their latest readings and what this run
// holds on them. It is plain state, owned by one goroutine.
type Pool struct {
	rules Rules
	all   []Device // as given to NewPool, in PCI order
	devs  []device // parallel to all
	holds map[string]Grant
	turn  int // position at which round-robin continues

	found     []candidate // scratch of find
	lastIDs   []string    // IDs that lastAsked was computed for
	lastAsked []bool
}

// NewPool makes a pool of devs, which are in PCI order. Devices that rules do
// not manage are always refused.
func NewPool(devs []Device, rules Rules) *Pool {
	p := &Pool{rules: rules, all: slices.Clone(devs), holds: map[string]Grant{}}
	managed := matches(devs, rules.IDs)
	p.devs = make([]device, len(devs))
	for i, d := range devs {
		p.devs[i] = device{Device: d, managed: managed[i], mode: d.ComputeMode, free: -1, used: -1}
		p.devs[i].peaks = [2]int{-1, -1}
	}
	if !p.limited() {
		p.reserve(rules.Reserve)
	}
	p.found = make([]candidate, 0, len(devs))
	return p
}

// reserve sets aside the n highest indices of the managed devices. MIG instances
// share their GPU's index.
func (p *Pool) reserve(n int) {
	var indices []int
	for i := range p.devs {
		if p.devs[i].managed {
			indices = append(indices, p.devs[i].Index)
		}
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	if n <= 0 || len(indices) == 0 {
		return
	}
	lowest := indices[max(0, len(indices)-n)]
	for i := range p.devs {
		p.devs[i].reserved = p.devs[i].managed && p.devs[i].Index >= lowest
	}
}

// limited reports whether this run's share is a number of devices, not fixed indices.
func (p *Pool) limited() bool { return p.rules.MinGPUs >= 0 || p.rules.MaxGPUs >= 0 }

// Observe records a snapshot. It ignores a reading older than the device's
// latest reading or release. After a snapshot without readings, no device admits
// anything until the next.
func (p *Pool) Observe(snap Observation) {
	if snap.Claims != nil {
		p.observeClaims(p.withTaken(snap.Claims, snap.Readings))
	}
	for i := range p.devs {
		d := &p.devs[i]
		if snap.Err != "" && snap.At >= d.at {
			d.noReading = snap.Err
		}
	}
	if snap.Err != "" {
		return
	}
	for i := range snap.Readings {
		if r := &snap.Readings[i]; r.Found != nil {
			p.identify(r)
		}
		if d := p.device(snap.Readings[i].UUID); d != nil {
			d.observe(snap.At, &snap.Readings[i], p.gap())
			d.tally(p.rules.UID)
		}
	}
}

// identify records what a silent device turned out to be.
func (p *Pool) identify(r *Reading) {
	i := p.position(r.UUID)
	if i < 0 {
		return
	}
	r.UUID = r.Found.UUID
	p.all[i], p.devs[i].Device = *r.Found, *r.Found
	p.devs[i].managed = matches(p.all, p.rules.IDs)[i]
	p.lastIDs, p.lastAsked = nil, nil
}

func (p *Pool) observeClaims(claims []Claim) {
	for i := range p.devs {
		d := &p.devs[i]
		d.claims = d.claims[:0]
		for _, c := range claims {
			if c.UUID == d.UUID && !d.unyielded {
				d.claims = append(d.claims, c)
			}
		}
		d.tally(p.rules.UID)
	}
}

// gap returns how far apart two samples may be and still count as watching: one
// and a half poll intervals, at least 15 s.
func (p *Pool) gap() time.Duration {
	poll := p.rules.Poll
	if poll <= 0 {
		poll = time.Minute
	}
	return max(15*time.Second, poll*3/2)
}

// Hold sets a grant aside for attempt, a name that must be unique among holds.
func (p *Pool) Hold(attempt string, g Grant) {
	p.holds[attempt] = g
	turn, furthest := p.turn, -1
	for _, id := range g.UUIDs {
		d := p.device(id)
		if d == nil {
			continue
		}
		d.holds = append(d.holds, hold{attempt: attempt, memory: g.Memory, share: g.Share})
		d.back, d.unyielded = false, false
		d.tally(p.rules.UID)
		i := p.position(id)
		if dist := p.fromTurn(i); dist > furthest {
			turn, furthest = i+1, dist
		}
	}
	p.turn = turn
}

// fromTurn returns how far position i is from where round-robin continues.
func (p *Pool) fromTurn(i int) int {
	n := len(p.devs)
	return (i - p.turn%n + n) % n
}

// Rename changes the name that a grant is held under.
func (p *Pool) Rename(from, to string) {
	g, ok := p.holds[from]
	if !ok || from == to {
		return
	}
	delete(p.holds, from)
	p.holds[to] = g
	for _, id := range g.UUIDs {
		if d := p.device(id); d != nil {
			for i := range d.holds {
				if d.holds[i].attempt == from {
					d.holds[i].attempt = to
				}
			}
			d.tally(p.rules.UID)
		}
	}
}

// Release ends what attempt holds and returns those devices. Devices that no other attempt of
// this run holds count as just returned, for up to 30 s or until a new grant or a reading that
// shows somebody else there. No released device admits anything until its free memory is read again.
// Until devices are yielded or held again, this run's claim on them stands: whoever claims them
// meanwhile will find out and withdraw, so other claims do not count.
func (p *Pool) Release(now time.Duration, attempt string) []UUID {
	g, ok := p.holds[attempt]
	if !ok {
		return nil
	}
	delete(p.holds, attempt)
	for _, id := range g.UUIDs {
		if d := p.device(id); d != nil {
			d.release(now, attempt)
			d.tally(p.rules.UID)
		}
	}
	return g.UUIDs
}

// Yield records that this run no longer claims devices it released.
func (p *Pool) Yield(ids []UUID) {
	for _, id := range ids {
		if d := p.device(id); d != nil {
			d.unyielded = false
		}
	}
}

// Undo drops a grant under which nothing has run, as if it had never been held.
func (p *Pool) Undo(attempt string) {
	g := p.holds[attempt]
	delete(p.holds, attempt)
	for _, id := range g.UUIDs {
		if d := p.device(id); d != nil {
			d.drop(attempt)
			d.tally(p.rules.UID)
		}
	}
}

// Crowded reports whether, after a release, jobs of this or another run are still on one of the
// devices. A quick reading does not show how much those jobs have allocated, so all their grants
// count as promised until the next full one: a hand-over there needs the process list.
func (p *Pool) Crowded(ids []UUID) bool {
	for _, id := range ids {
		if d := p.device(id); d != nil && len(d.holds)+len(d.claims) > 0 {
			return true
		}
	}
	return false
}

// Present returns the processes on a device as of its last list, except those of this
// run's attempts there.
func (p *Pool) Present(id UUID) []Process {
	d := p.device(id)
	if d == nil {
		return nil
	}
	var others []Process
	for _, pr := range d.procs {
		if pr.Attempt == "" || !d.holder(pr.Attempt) {
			others = append(others, pr)
		}
	}
	return others
}

// Label returns a device's name for people, "2" or "2 (MIG-…)"; "" if unknown.
func (p *Pool) Label(id UUID) string {
	if d := p.device(id); d != nil {
		return d.label()
	}
	return ""
}

// Devices returns the managed devices in PCI order.
func (p *Pool) Devices() []Device {
	var devs []Device
	for i := range p.devs {
		if p.devs[i].managed {
			devs = append(devs, p.devs[i].Device)
		}
	}
	return devs
}

func (p *Pool) device(id UUID) *device {
	if i := p.position(id); i >= 0 {
		return &p.devs[i]
	}
	return nil
}

func (p *Pool) position(id UUID) int {
	for i := range p.devs {
		if p.devs[i].UUID == id {
			return i
		}
	}
	return -1
}
