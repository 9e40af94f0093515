package gpu

import (
	"slices"
	"time"
)

// A Wish is what a run waits for. Every run on a host publishes its own wish and reads the others'.
type Wish struct {
	Run           string        `json:"run"` // unique on the host
	UID           int           `json:"-"`
	User          string        `json:"-"`                    // login name of UID
	Name          string        `json:"name,omitempty"`       // name of a waiting command; "" for a run
	PID           int           `json:"-"`                    // 0 if from another PID namespace
	Since         time.Time     `json:"since"`                // when the run last got a device, or when it began to wait if that was later
	Background    bool          `json:"background,omitempty"` // it uses only devices that no other run wants
	Gathers       bool          `json:"gathers,omitempty"`    // it reserves devices until it has all that its first request needs
	Used          float64       `json:"gpu_seconds"`          // by the user, halved every day, as seen by this run
	Requests      []WishRequest `json:"requests"`             // in the order of the run's jobs
	HostResources               // held by the run's attempts without devices, even while it waits for nothing

	All  HostResources `json:"-"` // resources of all of this run's attempts; zero in other runs' wishes
	seen time.Duration // when this run first saw it
}

// presses reports whether a run waits for cores or memory.
func (w Wish) presses() bool {
	return slices.ContainsFunc(w.Requests, func(a WishRequest) bool { return a.nonZero() })
}

// A WishRequest is the part of a Wish for some jobs with equal needs.
type WishRequest struct {
	Jobs          int    `json:"jobs"`
	Min           int    `json:"gpus"`         // minimum devices of each job
	Memory        Bytes  `json:"memory_bytes"` // on each device
	MaxUtil       int    `json:"max_util"`
	Share         bool   `json:"share,omitempty"`
	Others        Others `json:"others"`
	Room          int    `json:"room"`           // how many more devices the run may hold
	Most          int    `json:"most,omitempty"` // Room as if this user's other runs held no devices; 0 if that is no more than Room
	UUIDs         []UUID `json:"uuids"`          // devices that could ever be suitable
	HostResources        // needed besides devices; Min is 0 for jobs without devices

	req *Request // the request of this run's jobs; nil in other runs' wishes
}

// WishRequest returns the part of this run's wish for a number of jobs that all need req. It leaves
// out the devices in except.
func (p *Pool) WishRequest(now time.Duration, req Request, jobs int, except []UUID) WishRequest {
	a := WishRequest{
		Jobs: jobs, Min: max(1, req.Min), Memory: req.Memory, MaxUtil: req.MaxUtil, Share: req.Share, Others: p.rules.Others,
		Room: p.Room(now), req: &req,
	}
	if req.Max == 0 && req.Min == 0 {
		a.Min = 0
		return a
	}
	if most := p.MostRoom(now); most > a.Room {
		a.Most = most
	}
	q := p.query(now, &req)
	devs := p.filter(func(d *device) bool {
		return q.refusal(fixed, d) == nil && !slices.Contains(except, d.UUID) && !q.watches(d)
	})
	for i, d := range devs {
		if req.Part && (i == 0 || d.part(req.Slots)-slack < a.Memory) {
			a.Memory = d.part(req.Slots) - slack
		}
	}
	a.UUIDs = uuids(devs)
	return a
}

// watches reports whether this run must watch a device for longer because of a stranger there, so
// that it could not accept an offer. Processes of a claim will be gone by then; those in a container
// may be root's, or of an unknown user.
func (q *query) watches(d *device) bool {
	return !q.pool.rules.AtOnce && q.util(d) >= 0 && d.watched < windows[1] && slices.ContainsFunc(d.procs, func(pr Process) bool {
		return pr.strange(q.pool.rules.UID) && !slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID == pr.UID || pr.UID <= 0 })
	})
}

// Size returns how many devices the pool has.
func (p *Pool) Size() int { return len(p.devs) }

// Room returns how many more devices this run may hold by its own limits and the host's.
func (p *Pool) Room(now time.Duration) int { return p.room(now, p.Held()+p.passedOn()) }

// MostRoom is like Room, but assumes that this user's other runs hold no devices.
func (p *Pool) MostRoom(now time.Duration) int { return p.room(now, p.held()) }

// room is like Room, but assumes that this user's runs hold the given number of devices.
func (p *Pool) room(now time.Duration, held int) int {
	room := len(p.devs)
	if p.limited() {
		room = p.limit() - p.held()
	}
	left, _ := p.quotaBeyond(now, held)
	return max(0, min(room, left))
}

// passedOn returns how many devices this run offers to other runs of its user that have not taken
// them yet.
func (p *Pool) passedOn() int {
	return p.count(func(d *device) bool {
		return d.to != "" && !p.userHolds(d) &&
			slices.ContainsFunc(p.Turns.others, func(w Wish) bool { return w.Run == d.to && w.UID == p.rules.UID })
	})
}

// wants returns how many devices the run could use for its wish.
func (w *Wish) wants() (n int) {
	room := 0
	for i := range w.Requests {
		n += max(0, w.Requests[i].Jobs) * w.Requests[i].Min
		room = max(room, w.Requests[i].Room)
	}
	return min(n, room)
}

// fits reports whether a device could serve a request of user uid, once jobs that are leaving it
// are gone. For another run, it judges by the visible state, and that run itself decides whether to
// start.
func (a *WishRequest) fits(d *device, uid int, run string) bool {
	switch {
	case len(d.holds) > 0 || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.To != run || run == "" }):
		return false
	case !slices.Contains(a.UUIDs, d.UUID), d.err != "", d.noReading != "", d.mode == ComputeProhibited:
		return false
	case d.free >= 0 && d.potential() < a.Memory:
		return false
	}
	strangers := d.hidden > 0 && !d.back
	for i := range d.procs {
		switch own := d.procs[i].UID == uid && uid >= 0; {
		case own && !a.Share:
			return false
		case !own:
			strangers = true
		}
	}
	if !strangers || d.back {
		return true
	}
	return a.Others != OthersAvoid && (a.MaxUtil >= 100 || d.peaks[1] <= a.MaxUtil)
}

// A Place is a waiting run's position in line.
type Place struct {
	Wish
	Holds    float64   // number of devices that its user holds
	Verdicts []Verdict // verdicts for its first request on suitable devices, as seen by this run
	Start    time.Time // when the first of its requests can start, judging by when claims end; zero if unknown
}

// Queue returns the waiting runs in the order of the line, including this one, which must hold
// nothing.
func (t *Turns) Queue(now time.Duration) []Place {
	r := t.newRound(now)
	var places []Place
	taken := make([]bool, len(t.pool.devs)) // by runs further ahead
	for _, w := range r.order(nil) {
		pl := Place{Wish: *w, Holds: r.load(w.UID, nil)}
		var best []*device
		for i := range w.Requests {
			a := &w.Requests[i]
			verdicts := t.as(now, w, a)
			if i == 0 {
				pl.Verdicts = verdicts
			}
			if set, at := t.expect(now, a, verdicts, taken); set != nil && (best == nil || at.Before(pl.Start)) {
				best, pl.Start = set, at
			}
		}
		for _, d := range best {
			taken[d.position] = true
		}
		places = append(places, pl)
	}
	return places
}

// as returns the verdicts on the devices that could serve another run's request.
func (t *Turns) as(now time.Duration, w *Wish, a *WishRequest) []Verdict {
	h := *t.pool.rules.Host // quotas are included in a.Room
	h.MaxGPUsPerUser, h.Users = -1, nil
	q := t.pool.clone()
	q.rules = Rules{Host: &h, MinGPUs: -1, MaxGPUs: -1, Others: a.Others, UID: w.UID, Run: w.Run, Poll: t.pool.rules.Poll, AtOnce: true}
	q.manage()
	q.noteQuarantines(now)
	for _, d := range q.devs {
		d.claims = slices.DeleteFunc(d.claims, func(c Claim) bool { return c.To == w.Run })
		d.gathers = slices.DeleteFunc(d.gathers, func(c Claim) bool { return c.Run == w.Run })
		d.count(w.UID)
	}
	return slices.DeleteFunc(q.Admit(now, Request{Min: a.Min, Max: a.Min, Memory: a.Memory, MaxUtil: a.MaxUtil, Share: a.Share}),
		func(v Verdict) bool { return !slices.Contains(a.UUIDs, v.UUID) })
}

// expect returns the devices on which a request can start earliest, and when; nil if unknown. A
// claimed device becomes free when its last claim ends, unless that claim is overdue.
func (t *Turns) expect(now time.Duration, a *WishRequest, verdicts []Verdict, taken []bool) (set []*device, at time.Time) {
	ends := make([]time.Time, len(t.pool.devs))
	for _, v := range verdicts {
		d := t.pool.device(v.UUID)
		switch {
		case taken[d.position]:
			continue
		case v.OK:
			ends[d.position] = t.pool.clock(now)
		case len(d.claims) > 0 && !slices.ContainsFunc(d.claims, func(c Claim) bool { return !c.Ends.After(t.pool.clock(now)) }):
			ends[d.position] = slices.MaxFunc(d.claims, func(a, b Claim) int { return a.Ends.Compare(b.Ends) }).Ends
		default:
			continue
		}
		set = append(set, d)
	}
	if len(set) < a.Min || a.Room < a.Min || a.Min < 1 {
		return nil, at
	}
	slices.SortStableFunc(set, func(a, b *device) int { return ends[a.position].Compare(ends[b.position]) })
	set = set[:a.Min]
	return set, ends[set[a.Min-1].position]
}
