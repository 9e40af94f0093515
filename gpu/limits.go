package gpu

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// manage marks the devices that the rules of the run and of the host allow.
func (p *Pool) manage() {
	all, h := p.all(), p.rules.Host
	managed, hosts := matches(all, p.rules.IDs), matches(all, h.Devices)
	at := func(list []bool) func(d *device) bool { return func(d *device) bool { return list[d.position] } }
	aside := p.highest(h.Reserve, at(hosts))
	for i, d := range p.devs {
		d.managed, d.barred, d.reserved = managed[i], "", false
		switch {
		case !hosts[i]:
			d.barred = h.WithSource("devices: %s", strings.Join(h.Devices, ","))
		case aside(d):
			d.barred = h.WithSource("reserve: %d", h.Reserve)
		}
	}
	if p.limited() {
		return
	}
	aside = p.highest(p.rules.Reserve, func(d *device) bool { return d.managed && d.barred == "" })
	for _, d := range p.devs {
		d.reserved = aside(d)
	}
}

// Rule replaces the run's own rules but not the host's.
func (p *Pool) Rule(r Rules) {
	r.Host = p.rules.Host
	p.rules = r
	p.manage()
}

// highest returns a function that reports whether a device has one of the n highest indices of some
// devices. MIG instances share their GPU's index.
func (p *Pool) highest(n int, of func(d *device) bool) func(d *device) bool {
	var indices []int
	for _, d := range p.filter(of) {
		indices = append(indices, d.Index)
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	if n <= 0 || len(indices) == 0 {
		return func(*device) bool { return false }
	}
	lowest := indices[max(0, len(indices)-n)]
	return func(d *device) bool { return of(d) && d.Index >= lowest }
}

// Host returns the host rules as last observed.
func (p *Pool) Host() *HostRules { return p.rules.Host }

// clock returns the current time in the host's time zone.
func (p *Pool) clock(now time.Duration) time.Time { return p.rules.Host.At.Add(now - p.hostRead) }

// closed returns why the host's hours let no job start on a device now, or "".
func (p *Pool) closed(now time.Duration, d *device) string {
	h := p.rules.Host
	if len(h.Hours) == 0 {
		return ""
	}
	all := p.all()
	return h.closed(p.clock(now), func(i int) bool { return matches(all, h.Hours[i].Devices)[d.position] })
}

// userHolds reports whether this user holds a device, in this or another run.
func (p *Pool) userHolds(d *device) bool {
	return len(d.holds) > 0 || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID == p.rules.UID && (c.To == "" || c.To == c.Run) })
}

// Held returns how many devices this user holds in all runs.
func (p *Pool) Held() int { return p.count(p.userHolds) }

// quota returns how many more devices this user may hold, and the rule that limits it.
func (p *Pool) quota(now time.Duration) (left int, limitedBy string) {
	return p.quotaBeyond(now, p.Held()+p.passedOn())
}

// quotaBeyond is like quota, if this user holds that many devices.
func (p *Pool) quotaBeyond(now time.Duration, held int) (left int, limitedBy string) {
	u := p.rules.Host.User(p.rules.UID, p.clock(now))
	if u.MaxGPUs < 0 {
		return len(p.devs), ""
	}
	return u.MaxGPUs - held, u.LimitedBy
}

// overdrawn returns how this user exceeds the host rules because of a grant, which the pool already
// holds, or "".
func (p *Pool) overdrawn(g Grant) string {
	left, limitedBy := p.quota(p.hostRead)
	fresh := func(d *device) bool {
		return len(d.holds) == 1 && !slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID == p.rules.UID })
	}
	if left >= 0 || !slices.ContainsFunc(p.byUUID(g.UUIDs), fresh) {
		return ""
	}
	return fmt.Sprintf("you would hold %s; %s", count(p.Held()), limitedBy)
}

// most returns the maximum number of devices that the host rules ever grant to one job of this
// user, and the rule behind it; -1 for no limit.
func (p *Pool) most() (n int, limitedBy string) {
	h := p.rules.Host
	u := h.Ever(p.rules.UID)
	if n = h.MaxGPUsPerJob; n < 0 || u.MaxGPUs >= 0 && u.MaxGPUs < n {
		return u.MaxGPUs, u.LimitedBy
	}
	return n, h.WithSource("max_gpus_per_job: %d", n)
}
