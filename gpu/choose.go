package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Verdict reports whether a device admits a request now and, if not, why.
type Verdict struct {
	UUID   UUID
	Index  int
	OK     bool
	Code   Code     // if not OK: which rule refuses it
	Host   bool     // if not OK: the rule is the host's
	User   string   // if not OK: the user whose jobs or processes are the reason; or ""
	By     *Process // if not OK: the process that is the reason, or nil
	Free   string   // if the code is MemoryShort: the memory that the job could have, "9 GiB"
	Reason string   // the reason in words, if not OK: "71% busy, limit 30%"
	Never  bool     // waiting cannot help: not managed, wrong model, too small
	Ours   bool     // only this run's own attempts are the reason
	Note   string   // if OK: caveat, "watched for only 5 of 60 s"; usually ""
}

// Admit applies all rules to every device, in PCI order. It changes nothing.
func (p *Pool) Admit(now time.Duration, req Request) []Verdict {
	q := p.query(now, &req)
	verdicts := make([]Verdict, len(p.devs))
	for i, d := range p.devs {
		v := Verdict{UUID: d.UUID, Index: d.Index}
		if r := q.refusal(rules, d); r != nil {
			v.Code, v.Host = r.code, r.host
			if v.User, v.By = d.whose(r.code); v.Code == MemoryShort {
				v.Free, _ = amounts(max(0, d.free-d.promised), q.memory(d))
			}
			v.Reason, v.Never, v.Ours = r.words(&q, d), r.never, r.ours != nil && r.ours(&q, d)
		} else {
			v.OK, v.Note = true, q.note(d)
		}
		verdicts[i] = v
	}
	return verdicts
}

// note returns the caveat for a device that admits the request, or "".
func (q *query) note(d *device) string {
	if !q.pool.rules.AtOnce || !q.unwatched(d) {
		return ""
	}
	return "watched for only " + d.watchedFor()
}

// Note returns the caveats for the devices of a grant that is not held yet: "GPU 2 was watched for
// only 5 of 60 s"; usually "".
func (p *Pool) Note(now time.Duration, req Request, g Grant) string {
	q := p.query(now, &req)
	var notes []string
	for _, d := range p.byUUID(g.UUIDs) {
		if note := q.note(d); note != "" {
			notes = append(notes, "GPU "+d.label()+" was "+note)
		}
	}
	return strings.Join(notes, ", ")
}

// Find picks devices for req, leaving out those in kept. It changes nothing. In particular,
// round-robin's turn advances only when the grant is held.
func (p *Pool) Find(now time.Duration, req Request, kept []UUID) (Grant, bool) {
	if req.Max <= 0 {
		return Grant{}, true
	}
	free, _ := p.partition(now, &req, kept)
	p.order(now, &req, free)
	free = p.choose(now, single(free, &req), req.Max)
	if len(free) < max(1, req.Min) {
		return Grant{}, false
	}
	slices.SortFunc(free, func(a, b *device) int { return a.position - b.position })
	g := Grant{UUIDs: uuids(free), Share: req.Share, Slots: req.Slots, Close: farthest(free)}
	q := p.query(now, &req)
	for i, d := range free {
		g.Indices = append(g.Indices, d.Index)
		if memory := q.memory(d); i == 0 || memory < g.Memory {
			g.Memory = memory
		}
	}
	return g, true
}

// single leaves out devices that cannot be used together, because CUDA uses at most one MIG
// instance, and none alongside a whole GPU.
func single(devs []*device, req *Request) []*device {
	if req.Max == 1 {
		return devs
	}
	whole := slices.DeleteFunc(slices.Clone(devs), func(d *device) bool { return d.MIG })
	if len(whole) >= max(1, req.Min) {
		return whole
	}
	return devs[:min(1, len(devs))]
}

// choose picks devices that this run may hold from devs, which order has sorted. most limits their
// number. choose prefers the devices that preference ranks first and, among these, those closest to
// each other.
func (p *Pool) choose(now time.Duration, devs []*device, most int) []*device {
	if limit := p.rules.Host.MaxGPUsPerJob; limit >= 0 {
		most = min(most, limit)
	}
	first := p.within(now, slices.Clone(devs))
	first = first[:min(len(first), most)]
	if len(first) < 2 {
		return first
	}
	worst := first[len(first)-1].preference(now)
	upTo := func(standing int) (n int) {
		for n < len(devs) && devs[n].preference(now) <= standing {
			n++
		}
		return n
	}
	allowed := func(set []*device) bool { return len(p.within(now, slices.Clone(set))) == len(set) }
	if set := closest(devs[:upTo(worst)], upTo(worst-1), len(first), allowed); set != nil {
		return set
	}
	return first
}

// Candidates returns the devices that admit req now, up to this run's limit, and the devices that
// only this run's own attempts exclude. Both lists leave out kept. A patient job can wait for the
// devices in both lists.
func (p *Pool) Candidates(now time.Duration, req Request, kept []UUID) (free, ours []UUID) {
	f, o := p.partition(now, &req, kept)
	return uuids(p.within(now, f)), uuids(o)
}

// SuitableAfter returns the devices, except those in kept, that req could use if this run's
// attempts ended; nil if these devices would be too few.
func (p *Pool) SuitableAfter(now time.Duration, req Request, kept []UUID) []UUID {
	c := p.clone()
	for _, d := range c.devs {
		for len(d.holds) > 0 {
			d.leave(now, d.holds[0].attempt, c.rules.UID)
		}
		d.count(c.rules.UID)
	}
	free, ours := c.partition(now, &req, kept)
	all := slices.Concat(free, ours)
	if len(c.within(now, slices.Clone(all))) < req.Min {
		return nil
	}
	return uuids(all)
}

// partition returns the devices that admit req, and the devices that only this run's own attempts
// exclude. Both lists leave out kept.
func (p *Pool) partition(now time.Duration, req *Request, kept []UUID) (free, ours []*device) {
	q := p.query(now, req)
	for _, d := range p.devs {
		if slices.Contains(kept, d.UUID) {
			continue
		}
		if r := q.refusal(rules, d); r == nil {
			free = append(free, d)
		} else if r.ours != nil && r.ours(&q, d) {
			ours = append(ours, d)
		}
	}
	return free, ours
}

func uuids(devs []*device) []UUID {
	var ids []UUID
	for _, d := range devs {
		ids = append(ids, d.UUID)
	}
	return ids
}

// A policy scores devices; the device with the lowest score is taken first.
type policy struct {
	score func(p *Pool, d *device) int64
	sizes bool // keeps large devices for jobs that need them; if false, the memory of devices is ignored
	packs bool // keeps empty devices for jobs that do not share
}

var policies = map[Pick]policy{
	MostFree:   {score: func(_ *Pool, d *device) int64 { return -int64(d.available()) }, sizes: true},
	LeastUtil:  {score: func(_ *Pool, d *device) int64 { return unknownLast(d.peaks[0]) }, sizes: true},
	FirstFit:   {score: func(_ *Pool, d *device) int64 { return int64(d.position) }},
	BestFit:    {score: func(_ *Pool, d *device) int64 { return unknownLast(d.available()) }, sizes: true, packs: true},
	RoundRobin: {score: func(p *Pool, d *device) int64 { return int64(p.fromTurn(d)) }},
}

func unknownLast[T ~int | ~int64](n T) int64 {
	if n < 0 {
		return 1 << 62
	}
	return int64(n)
}

// class returns a device's rank, which takes precedence over its score. If sizes is set, a job that
// does not share takes the smallest device that fits; sizes that round to the same GiB are equal.
func (p *policy) class(req *Request, d *device) int64 {
	switch {
	case p.sizes && !req.Share:
		return int64((d.Total + GiB/2) / GiB)
	case p.packs && req.Share && len(d.holds)+len(d.claims) == 0:
		return 1
	}
	return 0
}

// order sorts devices by preference, then by policy, then by UUID.
func (p *Pool) order(now time.Duration, req *Request, devs []*device) {
	pick, ok := policies[p.rules.Pick]
	if !ok {
		pick = policies[MostFree]
	}
	slices.SortFunc(devs, func(a, b *device) int {
		return cmp.Or(a.preference(now)-b.preference(now), cmp.Compare(pick.class(req, a), pick.class(req, b)),
			cmp.Compare(pick.score(p, a), pick.score(p, b)), cmp.Compare(a.UUID, b.UUID))
	})
}

// preference ranks devices: those without other users first, those quarantined by another user last.
func (d *device) preference(now time.Duration) int {
	switch {
	case d.suspect:
		return 2
	case d.foreign != nil || d.unattributed(now) > 0:
		return 1
	}
	return 0
}

// within removes devices that exceed the run's limit on devices, or the user's limit on the host,
// starting with the last ones.
func (p *Pool) within(now time.Duration, devs []*device) []*device {
	room := p.limit() - p.held()
	quota, _ := p.quota(now)
	return slices.DeleteFunc(devs, func(d *device) bool {
		fresh, yours := len(d.holds) == 0, p.userHolds(d)
		if fresh && room <= 0 || !yours && quota <= 0 {
			return true
		}
		if fresh {
			room--
		}
		if !yours {
			quota--
		}
		return false
	})
}

// held returns how many devices this run's attempts hold.
func (p *Pool) held() int { return p.count(func(d *device) bool { return len(d.holds) > 0 }) }

func (p *Pool) count(is func(d *device) bool) (n int) {
	for _, d := range p.devs {
		if is(d) {
			n++
		}
	}
	return n
}

// filter returns, in PCI order, the devices that satisfy the condition is.
func (p *Pool) filter(is func(d *device) bool) (found []*device) {
	for _, d := range p.devs {
		if is(d) {
			found = append(found, d)
		}
	}
	return found
}

// limit returns how many devices this run may hold at once: min(max_gpus, max(min_gpus, available −
// reserve)). A managed device is available if this run already holds it, or if it answers and, as
// far as known, has 1 GiB free.
func (p *Pool) limit() int {
	if !p.limited() {
		return len(p.devs)
	}
	var q query
	return p.bound(p.count(func(d *device) bool {
		return d.managed && d.barred == "" && (len(d.holds) > 0 || q.refusal(answering, d) == nil && (d.free < 0 || d.free >= GiB))
	}))
}

// Short explains that this run may hold more devices, but too few for req; "" if that is not so.
func (p *Pool) Short(req Request) string {
	most, held := p.limit(), p.held()
	if !p.limited() || req.Share || most <= held || most-held >= req.Min {
		return ""
	}
	return fmt.Sprintf("this run holds %s, and min_gpus, max_gpus and reserve allow %d now", count(held), most)
}

func (p *Pool) bound(available int) int {
	n := max(0, p.rules.MinGPUs, available-p.rules.Reserve)
	if p.rules.MaxGPUs >= 0 {
		n = min(n, p.rules.MaxGPUs)
	}
	return n
}

// Possible reports whether devices of this pool could ever satisfy req, and if not, why. A device
// that is failing right now still counts.
func (p *Pool) Possible(req Request) (string, bool) {
	if req.Min <= 0 {
		return "", true
	}
	q := p.query(0, &req)
	usable := 0
	var nearest *device // the refused device closest to the request
	for _, d := range p.devs {
		if q.refusal(fixed, d) == nil {
			usable++
		} else if nearest == nil || q.nearness(d) > q.nearness(nearest) {
			nearest = d
		}
	}
	managed := len(p.Devices())
	needs := "needs " + count(req.Min)
	most, limitedBy := p.most()
	switch {
	case most >= 0 && most < req.Min:
		return needs + "; " + limitedBy, false
	case p.limited() && p.bound(managed) < min(req.Min, usable):
		return needs + ", but min_gpus, max_gpus and reserve allow this run only " + count(p.bound(managed)), false
	case usable >= req.Min:
		return "", true
	case nearest == nil:
		return needs + ", but this machine has " + count(len(p.devs)), false
	}
	why := "GPU " + nearest.label() + ": " + q.refusal(fixed, nearest).words(&q, nearest)
	if usable == 0 && req.Min == 1 {
		return "no suitable GPU here: " + why, false
	}
	return needs + ", but this machine has only " + suitable(usable) + "; " + why, false
}

// EverPossible is like Possible, but ignores the host's rules, which may change while a run waits.
func (p *Pool) EverPossible(req Request) (string, bool) {
	if why, ok := p.Possible(req); ok || p.rules.Host.File == "" {
		return why, ok
	}
	c := p.Fresh()
	c.rules.Host = NoHostRules()
	c.manage()
	return c.Possible(req)
}

// nearness scores how close a refused device comes to the request. Devices that match the job's
// gpu_ids rank first, then devices of its model, then the largest. Possible reports why the device
// with the highest score is refused.
func (q *query) nearness(d *device) Bytes {
	n := min(d.Total, q.req.Memory)
	if d.is(q.req.Models) {
		n += 1 << 60
	}
	if q.names(d) {
		n += 1 << 61
	}
	return n
}
