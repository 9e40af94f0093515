package gpu

import "time"

// The six admission rules, in the order in which their reasons are reported:
// first what waiting cannot change, then who is on the device, then the
// numbers. reason.go has the text for each finding.

// A cause is why a device refuses a request.
type cause int

const (
	fits cause = iota
	notManaged
	isReserved
	notAsked   // not in the request's own IDs
	otherModel // none of the requested models
	partOfGPU  // a MIG instance, but the request needs several devices
	tooSmall
	noReadings // from any device
	notRead
	silent // does not answer
	prohibited
	atLimit  // max_gpus
	awaited  // released, free memory not read since
	heldHere // by an attempt of this run
	claimed  // by another run
	ownOn    // a process of this user
	othersOn // others: avoid
	hiddenOn // others: avoid, memory in use by no visible process
	exclusive
	blind // free memory is unknown, and the device may be in use
	tooLittle
	busy
	watching
	isKept
)

// never reports whether waiting cannot help.
func (c cause) never() bool { return notManaged <= c && c <= tooSmall }

// A finding is the result of judging one device. It holds no text, so a
// scheduler can ask as often as it likes.
type finding struct {
	cause cause
	ours  bool          // this run's own attempts are the reason
	until time.Duration // when time alone can change it; 0 for never
}

// judge applies rules 1 to 6 to d.
func (p *Pool) judge(now time.Duration, req *Request, asked bool, d *device) finding {
	if c := p.fixed(req, asked, d); c != fits {
		return finding{cause: c}
	}
	if c := d.answers(); c != fits {
		return finding{cause: c}
	}
	if c := p.company(now, req, d); c != fits {
		return finding{cause: c, ours: c == heldHere && p.withoutOurs(now, req, d)}
	}
	if d.awaited {
		return finding{cause: awaited, ours: true}
	}
	if c := d.memory(req); c != fits {
		return finding{cause: c, ours: d.ourMemory(now, req)}
	}
	return p.utilization(now, req, d)
}

// fixed applies rule 1 and whatever else can never change.
func (p *Pool) fixed(req *Request, asked bool, d *device) cause {
	switch {
	case !d.managed:
		return notManaged
	case d.reserved:
		return isReserved
	case !asked:
		return notAsked
	case !model(d, req.Models):
		return otherModel
	case d.MIG && req.Min > 1:
		return partOfGPU
	case d.Total > 0 && d.Total < req.Memory:
		return tooSmall
	}
	return fits
}

// answers applies rule 2.
func (d *device) answers() cause {
	switch {
	case d.noReading != "":
		return noReadings
	case !d.read:
		return notRead
	case d.err != "":
		return silent
	case d.mode == ComputeProhibited:
		return prohibited
	}
	return fits
}

// company applies rules 5 and 6, and exclusive compute mode.
func (p *Pool) company(now time.Duration, req *Request, d *device) cause {
	for i := range d.holds {
		if !req.Share || !d.holds[i].share || d.mode == ComputeExclusive {
			return heldHere
		}
	}
	for i := range d.claims {
		if !req.Share || !d.claims[i].Share || d.mode == ComputeExclusive {
			return claimed
		}
	}
	switch {
	case d.mode == ComputeExclusive && len(d.procs) > 0:
		return exclusive
	case d.own != nil && !req.Share:
		return ownOn
	}
	return p.others(now, d)
}

// others applies rule 6.
func (p *Pool) others(now time.Duration, d *device) cause {
	switch {
	case p.rules.Others != OthersAvoid:
	case d.foreign != nil:
		return othersOn
	case d.strange(now) > 0:
		return hiddenOn
	}
	return fits
}

// withoutOurs reports whether d, which attempts of this run hold, would admit
// req once they are gone, as far as is known now.
func (p *Pool) withoutOurs(now time.Duration, req *Request, d *device) bool {
	for i := range d.claims {
		if !req.Share || !d.claims[i].Share {
			return false
		}
	}
	if d.own != nil && !req.Share || d.foreign != nil && d.mode == ComputeExclusive {
		return false
	}
	return p.others(now, d) == fits && (d.free < 0 || d.potential() >= req.Memory)
}

// memory applies rule 3. A device whose free memory cannot be read admits a
// request only if nobody is on it.
func (d *device) memory(req *Request) cause {
	if d.free < 0 {
		if !d.listed || len(d.procs)+len(d.holds)+len(d.claims) > 0 {
			return blind
		}
		return fits
	}
	if d.free-d.promised < req.Memory {
		return tooLittle
	}
	return fits
}

// ourMemory reports whether req lacks only memory that attempts of this run
// hold, or held until a moment ago.
func (d *device) ourMemory(now time.Duration, req *Request) bool {
	if len(d.holds) == 0 && !d.returned(now) {
		return false
	}
	return d.free < 0 || d.potential() >= req.Memory
}

// potential returns what would be free without this run's attempts.
func (d *device) potential() Bytes {
	free := d.free
	if d.back {
		free = max(free, d.whole)
	}
	free += d.ours - d.promised
	if d.Total > 0 {
		free = min(free, d.Total)
	}
	return free
}

// utilization applies rule 4.
func (p *Pool) utilization(now time.Duration, req *Request, d *device) finding {
	strangers := d.foreign != nil || d.hidden > 0
	highest := d.peaks[0]
	window := briefly
	if strangers {
		highest, window = d.peaks[1], atLeast
	}
	switch {
	case req.MaxUtil >= 100 || d.empty() || d.returned(now):
	case req.Share && !req.UtilOnOwn && !strangers:
	case highest < 0: // unknown
	case highest > req.MaxUtil:
		return finding{cause: busy, ours: len(d.holds) > 0 && !strangers}
	case d.watched < window && !p.rules.AtOnce:
		return finding{cause: watching, until: d.at - d.watched + window}
	}
	return finding{}
}

// window returns how long rule 4 wants d to have been watched.
func (d *device) window() time.Duration {
	if d.foreign != nil || d.hidden > 0 {
		return atLeast
	}
	return briefly
}
