package gpu

import (
	"math"
	"slices"
	"time"
)

// halfLife is how fast past use is forgotten.
const halfLife = 24 * time.Hour

// usage is the device time that users have had, as far as this run has seen.
type usage struct {
	at    time.Duration
	users []used
}

type used struct {
	uid     int
	seconds float64 // halved every halfLife
}

// Pass records that time passes until now, with devices held as they are.
func (p *Pool) Pass(now time.Duration) {
	u := &p.usage
	passed := (now - u.at).Seconds()
	if u.at == 0 || passed <= 0 {
		u.at = max(u.at, now)
		return
	}
	u.at = now
	for i := range u.users {
		u.users[i].seconds *= math.Exp2(-passed / halfLife.Seconds())
	}
	for i := range p.devs {
		d := &p.devs[i]
		for _, h := range d.holds {
			if p.rules.Background {
				continue
			}
			u.add(p.rules.UID, passed*d.weight(h.share, h.memory))
		}
		for k := range d.claims {
			if c := &d.claims[k]; c.counts() {
				u.add(c.UID, passed*d.weight(c.Share, c.Memory))
			}
		}
	}
}

func (u *usage) add(uid int, seconds float64) {
	i := slices.IndexFunc(u.users, func(o used) bool { return o.uid == uid })
	if i < 0 {
		i = len(u.users)
		u.users = append(u.users, used{uid: uid})
	}
	u.users[i].seconds += seconds
}

// Used returns the GPU seconds that a user has had, halved every day.
func (p *Pool) Used(uid int) float64 {
	for _, u := range p.usage.users {
		if u.uid == uid {
			return u.seconds
		}
	}
	return 0
}

// weight returns how much of a device somebody holds who has this much of its memory.
func (d *device) weight(share bool, memory Bytes) float64 {
	if share && d.Total > 0 && memory >= 0 {
		return min(1, float64(memory)/float64(d.Total))
	}
	return 1
}
