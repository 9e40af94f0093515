package gpu

import (
	"slices"
	"time"
)

// Rules are what a run as a whole may use. They do not change while it lives.
type Rules struct {
	IDs     []string      // the devices it manages: indices or UUIDs (or a unique beginning); empty for all
	Reserve int           // so many of the highest managed indices stay free for others
	MinGPUs int           // -1 when neither MinGPUs nor MaxGPUs is given, and then Reserve fixes indices
	MaxGPUs int           // -1 when not given
	Others  Others        // what another user's process on a device means
	Pick    Pick          // which of the devices that fit
	UID     int           // this user
	Poll    time.Duration // how far apart readings are; samples further apart than one and a half of it, and 15 s, do not count as watching; 0 for a minute
	AtOnce  bool          // judge utilisation by the samples there are, and say so in Verdict.Note: --no-wait, gpus, plan
}

// Others is the rule about devices that other users' processes stand on.
type Others string

const (
	OthersAllow Others = "allow" // memory and utilisation decide, empty devices first
	OthersAvoid Others = "avoid" // refuse every device with another user's process or memory nobody visible holds
)

// Pick names a policy that chooses among the devices that fit.
type Pick string

const (
	MostFree   Pick = "most-free"
	LeastUtil  Pick = "least-util"
	FirstFit   Pick = "first-fit"
	BestFit    Pick = "best-fit"
	RoundRobin Pick = "round-robin"
)

// A Verdict says whether a device lets a request on now.
type Verdict struct {
	UUID   UUID
	Index  int
	OK     bool
	Reason string        // in words, when not OK: "71% busy, limit 30%"
	Never  bool          // no waiting helps: not managed, wrong model, too small
	Until  time.Duration // CLOCK_BOOTTIME at which the verdict can change by time alone; 0 when it cannot
	Free   Bytes         // free minus promised, as judged; -1 unknown
	Ours   bool          // attempts of this run hold it, and that is why it is refused
	Note   string        // when OK: what it was judged without, "watched for 5 of 60 s only"; usually ""
}

// A Pool knows the managed devices, their latest readings, and what this run
// holds of them. It is plain state owned by one goroutine.
type Pool struct {
	rules Rules
	all   []Device // that NewPool was given, in PCI order
	devs  []device // parallel to all
	holds map[string]Grant
	turn  int // position at which round-robin goes on

	found     []candidate // scratch of find
	lastIDs   []string    // of the request that asked last looked at
	lastAsked []bool
}

// NewPool makes a pool over devs, which are in PCI order. Those that rules do
// not manage are judged too, and always refused.
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

// reserve sets aside the n highest indices of the managed devices. Instances of
// one GPU share its index.
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

// limited says whether the number of devices counts instead of fixed indices.
func (p *Pool) limited() bool { return p.rules.MinGPUs >= 0 || p.rules.MaxGPUs >= 0 }

// Observe takes over what snap says of the devices it has readings of. A
// reading older than the one before it, or than the last release there, is
// passed over. Without any reading no device lets anything on until the next.
func (p *Pool) Observe(snap Snapshot) {
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

// identify takes over what a device is that had been silent so far.
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

// gap is how far apart two samples may be and still count as watching: a poll
// and a half, of a minute where nobody said.
func (p *Pool) gap() time.Duration {
	poll := p.rules.Poll
	if poll <= 0 {
		poll = time.Minute
	}
	return max(15*time.Second, poll*3/2)
}

// Hold sets a grant aside for attempt, a name that is unique among those held.
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

// fromTurn is how far position i is from the one at which round-robin goes on.
func (p *Pool) fromTurn(i int) int {
	n := len(p.devs)
	return (i - p.turn%n + n) % n
}

// Rename changes the name under which a grant is held.
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

// Release gives back what attempt holds, and returns those devices. Ones that nobody else of
// this run stands on count from now on as just got back, until a grant, or a reading that shows
// somebody else there, says otherwise, for 30 s at most. None of them lets anything on before its free memory was read again.
// Until they are yielded or held again, this run's claim stands there: who claims them meanwhile
// will find that out, and counts for nothing.
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

// Yield says that this run no longer claims devices that it has released.
func (p *Pool) Yield(ids []UUID) {
	for _, id := range ids {
		if d := p.device(id); d != nil {
			d.unyielded = false
		}
	}
}

// Undo takes a grant back under which nothing has run, as if it had not been held.
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

// Crowded says whether, after a release, jobs of this or another run still stand on one of the
// devices ids. A quick reading does not tell what has become of their memory, and all that they were
// granted counts as promised until the next full one: a hand-over there wants the list of processes.
func (p *Pool) Crowded(ids []UUID) bool {
	for _, id := range ids {
		if d := p.device(id); d != nil && len(d.holds)+len(d.claims) > 0 {
			return true
		}
	}
	return false
}

// Present are the processes on a device as of its last list, but for those of this run's
// attempts there.
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

// Label is how people call a device, "2" or "2 (MIG-…)"; "" for an unknown one.
func (p *Pool) Label(id UUID) string {
	if d := p.device(id); d != nil {
		return d.label()
	}
	return ""
}

// Devices lists the managed devices in PCI order.
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
