package gpu

import (
	"cmp"
	"slices"
	"time"
)

// Rules limit the devices of a run.
type Rules struct {
	Host    *HostRules    // nil for none
	IDs     []string      // managed devices: indices, UUIDs or unique UUID prefixes; empty for all
	Reserve int           // how many of the highest managed indices stay free for others
	MinGPUs int           // -1 if not given; if MaxGPUs is not given either, Reserve applies to fixed indices
	MaxGPUs int           // -1 if not given
	Others  Others        // the rule for devices with processes of other users
	Pick    Pick          // how to choose among devices that fit
	UID     int           // this user
	Poll    time.Duration // interval of readings, 0 for a minute; a gap over 1.5 intervals and over 15 s interrupts watching
	Run     string        // this run's ID
	AtOnce  bool          // judge utilization by the samples so far, and mention this in Verdict.Note (for --no-wait, gpus and plan)

	Background bool // this run gives way to all others

	Machine HostResources // cores and memory of the host for all runs; 0 for no limit
}

// Others is the rule for devices with other users' processes.
type Others string

const (
	OthersAllow Others = "allow" // memory and utilization decide, empty devices first
	OthersAvoid Others = "avoid" // refuse devices with a process of another user, or with memory in use by no visible process
)

// Pick is a policy for choosing among devices that fit.
type Pick string

const (
	MostFree   Pick = "most-free"
	LeastUtil  Pick = "least-util"
	FirstFit   Pick = "first-fit"
	BestFit    Pick = "best-fit"
	RoundRobin Pick = "round-robin"
)

// A Pool tracks the managed devices, their latest readings and this run's holds on them. It is
// plain state, owned by one goroutine.
type Pool struct {
	rules Rules
	devs  []*device // in PCI order
	turn  int       // position at which round-robin continues

	quarantines []Quarantine  // as last read, and those that began since
	hostRead    time.Duration // when the host rules were read
	usage       usage
	Turns       Turns // decides whose turn it is on the devices
}

// NewPool returns a pool of devs, which must be in PCI order. Devices that rules exclude are always
// refused.
func NewPool(devs []Device, rules Rules) *Pool {
	p := &Pool{rules: rules, devs: make([]*device, len(devs))}
	p.Turns = Turns{pool: p, own: Wish{Run: rules.Run, UID: rules.UID, Background: rules.Background}}
	for i, known := range devs {
		p.devs[i] = &device{
			Device: known, position: i, latest: latest{mode: known.ComputeMode, free: -1, used: -1}, activity: activity{peaks: [2]int{-1, -1}},
		}
	}
	if rules.Host == nil {
		p.rules.Host = NoHostRules()
	}
	p.manage()
	return p
}

// Fresh returns a pool with the same devices, rules and clock but no observations.
func (p *Pool) Fresh() *Pool {
	rules := p.rules
	rules.AtOnce = true
	fresh := NewPool(p.all(), rules)
	fresh.hostRead = p.hostRead
	return fresh
}

// limited reports whether this run's share is a number of devices, not fixed indices.
func (p *Pool) limited() bool { return p.rules.MinGPUs >= 0 || p.rules.MaxGPUs >= 0 }

// Own reports whether a process belongs to the user of this run.
func (p *Pool) Own(pr *Process) bool { return pr.UID == p.rules.UID }

// Observe records an observation. It ignores readings older than the device's latest reading or
// release. After an observation without readings, no device admits anything until the next one.
func (p *Pool) Observe(seen Observation) {
	p.Turns.looked = true
	switch {
	case seen.Host != nil:
		p.rules.Host, p.hostRead = seen.Host, seen.At
		p.manage()
	case p.hostRead == 0: // the initial rules were read about now
		p.hostRead = seen.At
	}
	if seen.Claims != nil {
		p.Turns.observeWishes(seen.At, seen.Wishes)
		p.observeClaims(seen.At, seen.Claims, seen.Readings)
	}
	if seen.Quarantines != nil {
		p.quarantines = seen.Quarantines
	}
	defer p.noteQuarantines(seen.At) // after silent devices have received their UUIDs
	if seen.Err != "" {
		for _, d := range p.devs {
			if seen.At >= d.at {
				d.noReading = seen.Err
			}
		}
		return
	}
	for i := range seen.Readings {
		r := &seen.Readings[i]
		d := p.device(r.UUID)
		if d == nil {
			continue
		}
		if r.Found != nil { // a silent device was identified as this one
			r.UUID, d.Device = r.Found.UUID, *r.Found
			p.manage()
		}
		if d.observe(seen.At, r, p.gap()); d.at == seen.At {
			d.told = max(seen.At, p.usage.at) // a reading may arrive seconds after it was taken
		}
		d.contain(p.rules.UID)
		d.count(p.rules.UID)
	}
}

// observeClaims records the claims of other runs. A known claim keeps the value of Taken until a
// list of the device's processes shows a new one.
func (p *Pool) observeClaims(now time.Duration, claims []Claim, readings []Reading) {
	for _, d := range p.devs {
		known, before := d.claims, d.offered
		d.claims, d.offered = nil, false
		for _, c := range claims {
			if c.UUID != d.UUID && c.UUID != Every || d.unyielded || c.Gathering || c.taken(claims) {
				continue
			}
			if c.To == p.rules.Run && c.To != "" {
				d.offer(now, before)
				continue
			}
			told := slices.ContainsFunc(readings, func(r Reading) bool { return r.UUID == d.UUID && r.Listed })
			for _, k := range known {
				if k.Attempt == c.Attempt && c.Attempt != "" && !told {
					c.Taken = max(c.Taken, k.Taken)
				}
			}
			d.claims = append(d.claims, c)
		}
		d.count(p.rules.UID)
	}
	p.Turns.observe(now, claims)
}

// gap returns the maximum time between two samples for uninterrupted watching: one and a half poll
// intervals, at least 15 s.
func (p *Pool) gap() time.Duration {
	poll := p.rules.Poll
	if poll <= 0 {
		poll = time.Minute
	}
	return max(15*time.Second, poll*3/2)
}

// FreshFor is how long the process list of a reading counts as up to date.
const FreshFor = 100 * time.Millisecond

// MayHaveNewcomers returns the devices that may have gained processes since their latest reading,
// except those held by attempts of this run.
func (p *Pool) MayHaveNewcomers(now time.Duration, ids []UUID) []UUID {
	return uuids(slices.DeleteFunc(p.byUUID(ids), func(d *device) bool { return len(d.holds) > 0 || now-d.told <= FreshFor }))
}

// Hold reserves a grant under an attempt's name, which must be unique among holds.
func (p *Pool) Hold(attempt string, g Grant) {
	turn, furthest := p.turn, -1
	for _, d := range p.byUUID(g.UUIDs) {
		d.holds = append(d.holds, hold{attempt, g, d.strangers(p.rules.UID)})
		d.back, d.unyielded, d.offered, d.to = false, false, false, ""
		d.count(p.rules.UID)
		if dist := p.fromTurn(d); dist > furthest {
			turn, furthest = d.position+1, dist
		}
	}
	p.turn = turn
}

// fromTurn returns the distance of d from where round-robin continues.
func (p *Pool) fromTurn(d *device) int {
	n := len(p.devs)
	return (d.position - p.turn%n + n) % n
}

// Rename changes the attempt name under which a grant is held.
func (p *Pool) Rename(from, to string) {
	for _, d := range p.devs {
		if h := d.hold(from); h != nil {
			h.attempt = to
			d.count(p.rules.UID)
		}
	}
}

// Release ends the holds of an attempt and returns their devices. Devices that no other attempt of
// this run holds count as just returned until they are granted again, a reading shows another
// process there, or 30 s have passed. A released device admits nothing until its free memory is
// read again. Until the devices are yielded or held again, this run still claims them. Another run
// that claims them in that time will withdraw, so its claims do not count.
func (p *Pool) Release(now time.Duration, attempt string) []UUID {
	return p.drop(attempt, func(d *device) { d.release(now, attempt, p.rules.UID) })
}

// Undo removes a grant that nothing has run under, as if it had never been held.
func (p *Pool) Undo(attempt string) {
	p.drop(attempt, func(d *device) { d.drop(attempt) })
}

// drop calls do for every device held by an attempt, and returns those devices.
func (p *Pool) drop(attempt string, do func(d *device)) []UUID {
	held := p.heldBy(attempt)
	for _, d := range held {
		do(d)
		d.count(p.rules.UID)
	}
	return uuids(held)
}

// Yield records that this run no longer claims devices it released.
func (p *Pool) Yield(ids []UUID) {
	for _, d := range p.byUUID(ids) {
		d.unyielded, d.to = false, ""
	}
}

// Conflict records the claims of other runs, as read after this run published a claim for g, which
// the pool holds. It returns a description of the claim that conflicts with g, or of the host rule
// that g breaks together with this user's other runs; "" if there is no conflict. If claims is nil,
// the claims were not read, and there is no conflict.
func (p *Pool) Conflict(now time.Duration, g Grant, claims []Claim) string {
	if claims == nil {
		return ""
	}
	p.observeClaims(now, claims, nil)
	for _, d := range p.byUUID(g.UUIDs) {
		c := cmp.Or(d.barring(g.Share), d.gatherer(g.Ends))
		if n := len(d.claims); c == nil && n > 0 && (d.free < 0 || d.free < d.promised) {
			c = &d.claims[n-1] // both share, but there is too little memory
		}
		if most, _ := d.slots(g.Slots, d.holds); c == nil && len(d.claims) > 0 && most > 0 && len(d.holds)+len(d.claims) > most {
			c = &d.claims[len(d.claims)-1]
		}
		if c != nil {
			return "GPU " + d.label() + ": " + c.words()
		}
	}
	return p.overdrawn(g)
}

// StillInUse reports whether, after a release, jobs of this or another run are still on one of the
// devices. A quick reading does not show how much memory those jobs have allocated, so all of their
// grants count as promised until the next full reading. A hand-over of such a device needs the
// process list.
func (p *Pool) StillInUse(ids []UUID) bool {
	return slices.ContainsFunc(p.byUUID(ids), func(d *device) bool { return len(d.holds)+len(d.claims) > 0 })
}

// Present returns the processes that the last list showed on a device, except those of this run's
// attempts.
func (p *Pool) Present(id UUID) []Process {
	d := p.device(id)
	if d == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.procs), func(pr Process) bool { return d.hold(pr.Attempt) != nil })
}

// Unseen returns the memory that was in use by no visible process when a device's processes were
// last listed; 0 if unknown.
func (p *Pool) Unseen(id UUID) Bytes {
	if d := p.device(id); d != nil && d.listed {
		return (&Reading{Used: d.listUsed, Processes: d.procs}).Unseen()
	}
	return 0
}

// Total returns a device's memory; 0 if unknown.
func (p *Pool) Total(id UUID) Bytes {
	if d := p.device(id); d != nil {
		return d.Total
	}
	return 0
}

// Label returns a device's name for messages: "2" or "2 (MIG-…)", or its UUID if the device is
// unknown.
func (p *Pool) Label(id UUID) string {
	if d := p.device(id); d != nil {
		return d.label()
	}
	return string(id)
}

// Devices returns the managed devices that the host rules allow, in PCI order.
func (p *Pool) Devices() []Device {
	return slices.DeleteFunc(p.all(), func(known Device) bool {
		d := p.device(known.UUID)
		return !d.managed || d.barred != ""
	})
}

func (p *Pool) all() []Device {
	all := make([]Device, len(p.devs))
	for i, d := range p.devs {
		all[i] = d.Device
	}
	return all
}

func (p *Pool) device(id UUID) *device {
	if i := slices.IndexFunc(p.devs, func(d *device) bool { return d.UUID == id }); i >= 0 {
		return p.devs[i]
	}
	return nil
}

func (p *Pool) byUUID(ids []UUID) (devs []*device) {
	for _, id := range ids {
		if d := p.device(id); d != nil {
			devs = append(devs, d)
		}
	}
	return devs
}
