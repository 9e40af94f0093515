package gpu

import "time"

// The six rules of admission, in the order in which their reasons are given:
// what no waiting helps against first, then what is plain to see on the device,
// then the figures. Each finding has its words in reason.go.

// A cause is why a device does not let a request on.
type cause int

const (
	fits cause = iota
	notManaged
	isReserved
	notAsked   // not among the request's own IDs
	otherModel // not of its models
	partOfGPU  // a MIG instance, and the request is for several devices
	tooSmall
	noReadings // of any device
	notRead
	silent // it does not answer
	prohibited
	atLimit  // max_gpus
	awaited  // handed back, free memory not yet read
	heldHere // by an attempt of this run
	claimed  // by another run
	ownOn    // a process of this user
	othersOn // others: avoid
	hiddenOn // others: avoid, memory with nobody to be seen
	exclusive
	blind // neither free memory nor that nobody is there can be told
	tooLittle
	busy
	watching
	isKept
)

// never says whether no waiting helps.
func (c cause) never() bool { return notManaged <= c && c <= tooSmall }

// A finding is what came of judging one device. It holds no text, so that a
// scheduler can ask as often as it likes.
type finding struct {
	cause cause
	ours  bool          // attempts of this run are why
	until time.Duration // when time alone can change it; 0 never
}

// judge says whether d lets req on, by the rules 1 to 6.
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
	return p.utilisation(now, req, d)
}

// fixed is rule 1, and what a device can never have.
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

// answers is rule 2.
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

// company is rules 5 and 6, and exclusive compute mode.
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

// others is rule 6.
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

// withoutOurs says whether d, which attempts of this run hold, would let req on
// once they are gone, as far as can be told now.
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

// memory is rule 3. Where free memory cannot be read, only a device that nobody
// is on lets anything on.
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

// ourMemory says whether req lacks only memory that attempts of this run have,
// or had until a moment ago.
func (d *device) ourMemory(now time.Duration, req *Request) bool {
	if len(d.holds) == 0 && !d.returned(now) {
		return false
	}
	return d.free < 0 || d.potential() >= req.Memory
}

// potential is what would be free without this run's attempts.
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

// utilisation is rule 4.
func (p *Pool) utilisation(now time.Duration, req *Request, d *device) finding {
	strangers := d.foreign != nil || d.hidden > 0
	highest := d.peaks[0]
	window := briefly
	if strangers {
		highest, window = d.peaks[1], atLeast
	}
	switch {
	case req.MaxUtil >= 100 || d.empty() || d.returned(now):
	case req.Share && !req.UtilOnOwn && !strangers:
	case highest < 0: // cannot be read
	case highest > req.MaxUtil:
		return finding{cause: busy, ours: len(d.holds) > 0 && !strangers}
	case d.watched < window && !p.rules.AtOnce:
		return finding{cause: watching, until: d.at - d.watched + window}
	}
	return finding{}
}

// window is how long rule 4 wants d to have been watched.
func (d *device) window() time.Duration {
	if d.foreign != nil || d.hidden > 0 {
		return atLeast
	}
	return briefly
}
