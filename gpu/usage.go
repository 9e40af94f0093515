package gpu

import (
	"math"
	"slices"
	"time"
)

// halfLife is the time after which past use counts for half.
const halfLife = 24 * time.Hour

// usage records how much device time users have used, as far as this run has seen.
type usage struct {
	at    time.Duration
	users []Use // halved every halfLife
	spent Spent
}

// A Use is the GPU time that a user has used.
type Use struct {
	UID     int     `json:"uid"`
	Seconds float64 `json:"gpu_seconds"`
}

// Spent is the use of devices since a run began, as seen by this run. Other runs that were active
// in that time may have recorded the same use, except for Own.
type Spent struct {
	Passed time.Duration
	Own    float64 // this run's GPU seconds
	Others []Use   // from other users' claims
	Idle   []Idle  // of all devices with known utilization
}

// An Idle is a period in which every sample of a device was 0%, without gaps longer than idleGap.
// For a busy device it is empty.
type Idle struct {
	UUID  UUID          `json:"uuid"`
	Since time.Duration `json:"since_boottime_ns"`
	Until time.Duration `json:"until_boottime_ns"` // the newest sample
	Busy  time.Duration `json:"busy_boottime_ns"`  // the newest sample above 0%; 0 if none is known
}

// with combines two observations of the same device.
func (i Idle) with(o Idle) Idle {
	if i.Until < o.Until {
		i, o = o, i
	}
	if i.Since-o.Until <= idleGap {
		i.Since = min(i.Since, o.Since)
	}
	i.Busy = max(i.Busy, o.Busy)
	i.Since = max(i.Since, i.Busy)
	return i
}

// Merge combines two lists of observations.
func Merge(a, b []Idle) []Idle {
	all := slices.Clone(a)
	for _, o := range b {
		if k := slices.IndexFunc(all, func(i Idle) bool { return i.UUID == o.UUID }); k >= 0 {
			all[k] = all[k].with(o)
		} else {
			all = append(all, o)
		}
	}
	return all
}

// A Peak is the maximum memory that an attempt was observed to use on one of its GPUs.
type Peak struct {
	Used  Bytes `json:"used_bytes"`
	Total Bytes `json:"total_bytes"` // of the GPU; 0 if unknown
}

// idleGap is the longest gap between two idle samples throughout which a device still counts as
// idle. A run whose jobs are all running reads its devices every ten minutes.
const idleGap = 15 * time.Minute

// halved returns how many of these GPU seconds still count after the time passed.
func halved(seconds float64, passed time.Duration) float64 {
	return seconds * math.Exp2(-max(0, passed).Seconds()/halfLife.Seconds())
}

// Later returns a user's use as it counts after the time passed.
func (u Use) Later(passed time.Duration) Use { return Use{u.UID, halved(u.Seconds, passed)} }

// AdvanceTo adds the time since the last call to the use of devices, assuming that their holders
// have not changed in that time.
func (p *Pool) AdvanceTo(now time.Duration) {
	u := &p.usage
	elapsed := now - u.at
	passed := elapsed.Seconds()
	if u.at == 0 || passed <= 0 {
		u.at = max(u.at, now)
		return
	}
	u.at = now
	u.spent.Passed += elapsed
	for i := range u.users {
		u.users[i] = u.users[i].Later(elapsed)
	}
	for _, d := range p.devs {
		if own := passed * d.ownPart(p.rules.Background); own > 0 {
			u.spent.Own += own
			u.add(p.rules.UID, own)
		}
		for k := range d.claims {
			uid := d.claims[k].UID
			if slices.ContainsFunc(d.claims[:k], func(c Claim) bool { return c.UID == uid }) {
				continue
			}
			seconds := passed * d.userPart(uid)
			u.add(uid, seconds)
			if uid != p.rules.UID && seconds > 0 {
				u.spent.Others = plus(u.spent.Others, uid, seconds)
			}
		}
	}
}

// ownPart returns this run's share of a device. Between two of this run's attempts, the whole
// device counts, because other runs count all of it, too. If a run counted less for itself than
// others count for it, its turns would grow longer and longer.
func (d *device) ownPart(background bool) (part float64) {
	switch {
	case background:
		return 0
	case len(d.holds) == 0 && d.unyielded && d.to == "":
		return 1
	}
	for i := range d.holds {
		part += d.holdPart(&d.holds[i])
	}
	return min(1, part)
}

// userPart returns how much of a device a user's claims hold. A claim and the one that replaces it
// count once.
func (d *device) userPart(uid int) (part float64) {
	for k := range d.claims {
		if c := &d.claims[k]; c.UID == uid && c.counts() {
			part += d.claimPart(c)
		}
	}
	return min(1, part)
}

func (u *usage) add(uid int, seconds float64) { u.users = plus(u.users, uid, seconds) }

func plus(users []Use, uid int, seconds float64) []Use {
	i := slices.IndexFunc(users, func(o Use) bool { return o.UID == uid })
	if i < 0 {
		i = len(users)
		users = append(users, Use{UID: uid})
	}
	users[i].Seconds += seconds
	return users
}

// Spent returns the use of devices that the pool has observed since it was created.
func (p *Pool) Spent() Spent {
	s := p.usage.spent
	s.Others = slices.Clone(s.Others)
	for _, d := range p.devs {
		if d.idle.UUID != "" {
			s.Idle = append(s.Idle, d.idle)
		}
	}
	return s
}

// Since returns the difference between s and o, an earlier result of Spent.
func (s Spent) Since(o Spent) Spent {
	s.Passed, s.Own = s.Passed-o.Passed, s.Own-o.Own
	s.Others = slices.Clone(s.Others)
	for _, u := range o.Others {
		s.Others = plus(s.Others, u.UID, -u.Seconds)
	}
	return s
}

// Recall adds earlier observations: what users have used, and how long devices have been idle.
func (p *Pool) Recall(users []Use, idle []Idle) {
	for _, u := range users {
		p.usage.add(u.UID, u.Seconds)
	}
	for _, known := range idle {
		if d := p.device(known.UUID); d != nil && d.idle.UUID == "" {
			d.idle = known
		} else if d != nil {
			d.idle = d.idle.with(known)
		}
	}
}

// IdleSince returns when a device became idle; false if it is busy, or if this is unknown.
func (p *Pool) IdleSince(id UUID) (since time.Duration, ok bool) {
	d := p.device(id)
	if d == nil || d.idle.UUID == "" || d.idle.Busy == d.idle.Until || d.at-d.idle.Until > p.gap() {
		return 0, false
	}
	return d.idle.Since, true
}

// Used returns the GPU seconds that a user has used, halved every day.
func (p *Pool) Used(uid int) float64 {
	if i := slices.IndexFunc(p.usage.users, func(u Use) bool { return u.UID == uid }); i >= 0 {
		return p.usage.users[i].Seconds
	}
	return 0
}

// holdPart and claimPart return how much of a device a job occupies.
func (d *device) holdPart(h *hold) float64 {
	taken, _ := d.taken(h.attempt)
	return d.occupied(h.Share, max(h.Memory, taken), h.Slots)
}

func (d *device) claimPart(c *Claim) float64 {
	return d.occupied(c.Share, max(c.Memory, c.Taken), c.Slots)
}

// occupied returns a job's share of a device: all of it, unless it is shared. For a shared device,
// it is the largest of the job's shares of memory, utilization and slots.
func (d *device) occupied(share bool, memory Bytes, slots int) float64 {
	if !share || d.Total <= 0 || memory < 0 {
		return 1
	}
	part := float64(memory) / float64(d.Total)
	for _, s := range d.samples { // all of them, because the latest may be from before the job began to compute
		part = max(part, float64(s.Percent)/100/float64(max(1, len(d.holds)+len(d.claims))))
	}
	if most, _ := d.slots(slots, d.holds); most > 0 {
		part = max(part, 1/float64(most))
	}
	return min(1, part)
}
