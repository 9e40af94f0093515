package gpu

import (
	"slices"
	"time"
)

// Admit judges every device for req, in PCI order, by the six rules. It changes nothing.
func (p *Pool) Admit(now time.Duration, req Request) []Verdict {
	verdicts := make([]Verdict, len(p.devs))
	asked := p.asked(&req)
	full := p.held() >= p.limit()
	for i := range p.devs {
		d := &p.devs[i]
		f := p.admit(now, &req, asked, full, i)
		v := &verdicts[i]
		*v = Verdict{UUID: d.UUID, Index: d.Index, OK: f.cause == fits, Never: f.cause.never(), Until: f.until, Ours: f.ours, Free: -1}
		if d.free >= 0 {
			v.Free = max(0, d.free-d.promised)
		}
		if v.OK {
			v.Note = p.note(now, &req, d)
		} else {
			v.Reason = p.reason(f, &req, d)
		}
	}
	return verdicts
}

// admit is judge plus the limit on how many devices this run may hold.
func (p *Pool) admit(now time.Duration, req *Request, asked []bool, full bool, i int) finding {
	d := &p.devs[i]
	f := p.judge(now, req, asked == nil || asked[i], d)
	if full && len(d.holds) == 0 && (f.cause == fits || f.cause == watching) {
		return finding{cause: atLimit}
	}
	return f
}

// asked returns which devices the request names, nil for all of them. It keeps
// the last answer: jobs tried in a row mostly share one list, never modified.
func (p *Pool) asked(req *Request) []bool {
	ids := req.IDs
	if len(ids) == 0 {
		return nil
	}
	if len(p.lastIDs) != len(ids) || &p.lastIDs[0] != &ids[0] {
		p.lastIDs, p.lastAsked = ids, matches(p.all, ids)
	}
	return p.lastAsked
}

// Choose picks devices for req, except kept ones, or returns a verdict on each. It
// changes nothing: round-robin's turn advances only when the grant is held.
func (p *Pool) Choose(now time.Duration, req Request, kept []UUID) (Grant, []Verdict, bool) {
	if g, ok := p.Find(now, req, kept); ok {
		return g, nil, true
	}
	verdicts := p.Admit(now, req)
	for i := range verdicts {
		if v := &verdicts[i]; v.OK && slices.Contains(kept, v.UUID) {
			v.OK, v.Note = false, ""
			v.Reason = p.reason(finding{cause: isKept}, &req, &p.devs[i])
		}
	}
	return Grant{}, verdicts, false
}

// Find is Choose without the reasons, for a scheduler that asks often. It
// allocates nothing if there is no grant.
func (p *Pool) Find(now time.Duration, req Request, kept []UUID) (Grant, bool) {
	if req.Max <= 0 {
		return Grant{}, true
	}
	n := p.find(now, &req, kept)
	if n == 0 {
		return Grant{}, false
	}
	chosen := p.found[:n]
	slices.SortFunc(chosen, func(a, b candidate) int { return a.position - b.position })
	g := Grant{UUIDs: make([]UUID, n), Indices: make([]int, n), Memory: req.Memory, Share: req.Share}
	for i, c := range chosen {
		g.UUIDs[i], g.Indices[i] = c.uuid, p.devs[c.position].Index
	}
	return g, true
}

// Fits reports whether Choose would find a grant.
func (p *Pool) Fits(now time.Duration, req Request, kept []UUID) bool {
	return req.Max <= 0 || p.find(now, &req, kept) > 0
}

// find puts the devices chosen for req at the front of p.found and returns
// their number: 0, or from req.Min to req.Max.
func (p *Pool) find(now time.Duration, req *Request, kept []UUID) int {
	p.collect(now, req, kept)
	if len(p.found) < max(1, req.Min) {
		return 0
	}
	order(p.rules.Pick, p.found)
	p.within()
	// CUDA uses at most one MIG instance, and none next to a whole GPU.
	if p.found[0].mig {
		p.found = p.found[:1]
	} else if req.Max > 1 {
		p.found = slices.DeleteFunc(p.found, func(c candidate) bool { return c.mig })
	}
	if len(p.found) < max(1, req.Min) {
		return 0
	}
	return min(len(p.found), req.Max)
}

// collect fills p.found with the devices that admit req.
func (p *Pool) collect(now time.Duration, req *Request, kept []UUID) {
	p.found = p.found[:0]
	asked := p.asked(req)
	full := p.held() >= p.limit()
	for i := range p.devs {
		d := &p.devs[i]
		if p.admit(now, req, asked, full, i).cause != fits || slices.Contains(kept, d.UUID) {
			continue
		}
		c := candidate{uuid: d.UUID, position: i, mig: d.MIG, util: d.peaks[0], free: -1}
		c.turn = p.fromTurn(i)
		c.others = d.foreign != nil || d.strange(now) > 0
		if d.free >= 0 {
			c.free = d.free - d.promised
		}
		p.found = append(p.found, c)
	}
}

// within drops from the end of p.found devices that are new to this run and
// exceed its limit.
func (p *Pool) within() {
	room := p.limit() - p.held()
	p.found = slices.DeleteFunc(p.found, func(c candidate) bool {
		if len(p.devs[c.position].holds) > 0 {
			return false
		}
		room--
		return room < 0
	})
}

// held returns how many devices this run's attempts hold.
func (p *Pool) held() int {
	n := 0
	for i := range p.devs {
		if len(p.devs[i].holds) > 0 {
			n++
		}
	}
	return n
}

// limit returns how many devices this run may hold at once:
// min(max_gpus, max(min_gpus, available − reserve)). A managed device is available if
// this run already holds it, or if it answers and has 1 GiB free.
func (p *Pool) limit() int {
	if !p.limited() {
		return len(p.devs)
	}
	available := 0
	for i := range p.devs {
		d := &p.devs[i]
		if d.managed && (len(d.holds) > 0 || d.answers() == fits && (d.free < 0 || d.free >= GiB)) {
			available++
		}
	}
	return p.bound(available)
}

func (p *Pool) bound(available int) int {
	n := max(0, p.rules.MinGPUs, available-p.rules.Reserve)
	if p.rules.MaxGPUs >= 0 {
		n = min(n, p.rules.MaxGPUs)
	}
	return n
}

// Could returns the devices that admit req now, except kept ones and up to this
// run's limit, and those that only this run's own attempts keep from it.
// Together they are what patience can wait for.
func (p *Pool) Could(now time.Duration, req Request, kept []UUID) (free, ours []UUID) {
	asked := p.asked(&req)
	full := p.held() >= p.limit()
	for i := range p.devs {
		d := &p.devs[i]
		f := p.admit(now, &req, asked, full, i)
		switch {
		case slices.Contains(kept, d.UUID):
		case f.ours:
			ours = append(ours, d.UUID)
		case f.cause == fits:
			free = append(free, d.UUID)
		}
	}
	room := p.limit() - p.held()
	free = slices.DeleteFunc(free, func(id UUID) bool {
		if len(p.device(id).holds) > 0 {
			return false
		}
		room--
		return room < 0
	})
	return free, ours
}

// Possible reports whether devices of this pool could ever take req, and if not,
// why. A device that is failing right now still counts.
func (p *Pool) Possible(req Request) (string, bool) {
	if req.Min <= 0 {
		return "", true
	}
	asked := p.asked(&req)
	usable, managed := 0, 0
	var nearest finding
	var at *device
	var near Bytes
	for i := range p.devs {
		d := &p.devs[i]
		if d.managed {
			managed++
		}
		may := asked == nil || asked[i]
		c := p.fixed(&req, may, d)
		if c == fits {
			usable++
		} else if n := nearness(&req, may, d); at == nil || n > near {
			nearest, at, near = finding{cause: c}, d, n
		}
	}
	if p.limited() && p.bound(managed) < min(req.Min, usable) {
		return "needs " + count(req.Min) + ", but min_gpus, max_gpus and reserve allow this run only " + count(p.bound(managed)), false
	}
	return p.impossible(&req, usable, nearest, at)
}

// nearness scores how close a refused device comes to req: devices the job may use
// rank first, then those of its model, then the largest. Whatever is still wrong with
// the nearest one is what keeps the job from running.
func nearness(req *Request, asked bool, d *device) Bytes {
	n := min(d.Total, req.Memory)
	if model(d, req.Models) {
		n += 1 << 60
	}
	if asked {
		n += 1 << 61
	}
	return n
}

// impossible explains how many devices could take req and what is wrong with the
// nearest one.
func (p *Pool) impossible(req *Request, usable int, f finding, at *device) (string, bool) {
	switch {
	case usable >= req.Min:
		return "", true
	case at == nil:
		return "needs " + count(req.Min) + ", but this machine has " + count(len(p.devs)), false
	case usable == 0 && req.Min == 1:
		return "no GPU here can take it: GPU " + at.label() + ": " + p.reason(f, req, at), false
	}
	return "needs " + count(req.Min) + ", but only " + count(usable) + " here can take it; GPU " + at.label() + ": " + p.reason(f, req, at), false
}
