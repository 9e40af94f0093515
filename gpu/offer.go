package gpu

import (
	"hash/fnv"
	"slices"
	"time"
)

// The code in this file handles claims of other runs, and offers. An offer is a claim with which a
// run leaves a device to another run.

// claimedBy returns the devices with a claim of another run that counts and for which by returns
// true.
func (p *Pool) claimedBy(by func(*Claim) bool) []UUID {
	return uuids(p.filter(func(d *device) bool {
		return slices.ContainsFunc(d.claims, func(c Claim) bool { return c.counts() && by(&c) })
	}))
}

// ObserveOthers records the claims and wishes of other runs, without a reading.
func (p *Pool) ObserveOthers(now time.Duration, claims []Claim, wishes []Wish) {
	p.Turns.observeWishes(now, wishes)
	p.observeClaims(now, claims, nil)
}

// Offered returns the devices that other runs offer to this one and that it has not taken yet.
func (p *Pool) Offered() []UUID {
	return uuids(p.filter(func(d *device) bool { return d.offered && len(d.holds) == 0 }))
}

// Offer records that this run offers a device, which its attempt has released, to another run. An
// empty run ends the offer.
func (p *Pool) Offer(id UUID, run string) {
	if d := p.device(id); d != nil {
		d.to, d.unyielded = run, false
	}
}

// WasTaken reports whether the run of t has claimed a device that this run offered. This includes a
// device that the run of t has since offered to another run, or back to this one.
func (p *Pool) WasTaken(id UUID, t Turn) bool {
	d := p.device(id)
	return d != nil && (d.offered || d.gatheredBy(t.Run) || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Run == t.Run }))
}

// ClaimedByOther reports whether another run has claimed a device.
func (p *Pool) ClaimedByOther(id UUID) bool {
	d := p.device(id)
	return d != nil && len(d.claims) > 0
}

// RaceBackoff returns how long to avoid devices after losing the losses-th race for them in a row.
// The pause depends on the name of the claim, so that colliding runs pause for different times, at
// first 5 to 50 ms.
func RaceBackoff(name string, losses int, most time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return min(time.Duration(5+h.Sum32()%46)*time.Millisecond<<min(losses-1, 10), most)
}

// taken reports whether the run that c offers its device to has claimed it since. That ends the
// offer, even if the offering run is stopped.
func (c *Claim) taken(claims []Claim) bool {
	return c.To != "" && slices.ContainsFunc(claims, func(o Claim) bool { return o.UUID == c.UUID && o.Run == c.To && o.Since.After(c.Since) })
}

// counts reports whether the device of a claim counts as held by the claim's user. Devices of offers
// and background claims do not. (Gathering claims are kept separately.)
func (c *Claim) counts() bool { return c.To == "" && !c.Background }
