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
	for i, d := range p.devs {
		if d.managed, d.barred, d.reserved = managed[i], "", false; !hosts[i] {
			d.barred = h.WithSource("devices: %s", strings.Join(h.Devices, ","))
		}
	}
	for _, d := range highest(h.Reserve, p.filter(func(d *device) bool { return d.barred == "" })) {
		d.barred = h.WithSource("reserve: %d", h.Reserve)
	}
	if p.limited() {
		return
	}
	for _, d := range highest(p.rules.Reserve, p.filter(func(d *device) bool { return d.managed && d.barred == "" })) {
		d.reserved = true
	}
}

// Rule replaces the run's own rules but not the host's.
func (p *Pool) Rule(r Rules) {
	r.Host = p.rules.Host
	p.rules = r
	p.manage()
}

// highest returns the devices with the n highest indices. MIG instances share their GPU's index.
func highest(n int, devs []*device) []*device {
	var indices []int
	for _, d := range devs {
		indices = append(indices, d.Index)
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	top := indices[max(0, len(indices)-max(0, n)):]
	return slices.DeleteFunc(devs, func(d *device) bool { return !slices.Contains(top, d.Index) })
}

// Host returns the host rules as last observed.
func (p *Pool) Host() *HostRules { return p.rules.Host }

// clock returns the current time in the host's time zone.
func (p *Pool) clock(now time.Duration) time.Time { return p.rules.Host.At.Add(now - p.hostRead) }

// closed returns why the host's hours currently keep jobs from starting on a device; "" if they do
// not.
func (p *Pool) closed(now time.Duration, d *device) string {
	hours := p.hours(d)
	if why := hours.Closed(p.clock(now)); why != "" {
		return why + " by " + p.rules.Host.WithSource("hours: %s", hours)
	}
	return ""
}

// hours returns the host's hours for a device.
func (p *Pool) hours(d *device) (hours Hours) {
	if len(p.rules.Host.Hours) == 0 {
		return hours
	}
	all := p.all()
	for _, h := range p.rules.Host.Hours {
		if matches(all, h.Devices)[d.position] {
			hours = hours.or(h.Hours)
		}
	}
	return hours
}

// Opens returns when the host's hours next open a device that is closed now, or 0.
func (p *Pool) Opens(now time.Duration) (at time.Duration) {
	t := p.clock(now)
	for _, d := range p.devs {
		if wait := p.hours(d).Until(t); wait > 0 && (at == 0 || now+wait < at) {
			at = now + wait
		}
	}
	return at
}

// userHolds reports whether this user holds a device, in this or another run.
func (p *Pool) userHolds(d *device) bool {
	return len(d.holds) > 0 || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID == p.rules.UID && (c.To == "" || c.To == c.Run) })
}

// Held returns how many devices this user holds in all runs.
func (p *Pool) Held() int { return p.count(p.userHolds) }

// quota returns how many more devices this user may hold, and the rule behind this limit.
func (p *Pool) quota(now time.Duration) (left int, limitedBy string) {
	return p.quotaBeyond(now, p.Held()+p.passedOn())
}

// quotaBeyond is like quota, but assumes that this user holds the given number of devices.
func (p *Pool) quotaBeyond(now time.Duration, held int) (left int, limitedBy string) {
	u := p.rules.Host.User(p.rules.UID, p.clock(now))
	if u.MaxGPUs < 0 {
		return len(p.devs), ""
	}
	return u.MaxGPUs - held, u.LimitedBy
}

// overdrawn describes how a grant, which the pool already holds, makes this user exceed the host
// rules; "" if it does not.
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

// most returns the maximum number of devices that the host rules ever grant to one job of this user
// (-1 for no limit), and the rule behind it.
func (p *Pool) most() (n int, limitedBy string) {
	h := p.rules.Host
	u := h.Ever(p.rules.UID)
	if n = h.MaxGPUsPerJob; n < 0 || u.MaxGPUs >= 0 && u.MaxGPUs < n {
		return u.MaxGPUs, u.LimitedBy
	}
	return n, h.WithSource("max_gpus_per_job: %d", n)
}
