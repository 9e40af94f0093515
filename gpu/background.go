package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A background run takes only what nobody else wants, and gives it back when somebody
// does. Which of all background jobs on the host has to go follows from what everybody
// publishes: the one that started last and whose devices help the first foreground wish
// that free devices do not satisfy. So each background run finds out for itself when it is
// its turn, and as long as that job is there, no other has to go.

// giveWayFor is how long a job may take to go before the next one has to as well: its run
// may hang.
const giveWayFor = time.Minute

// giving is what a background run knows of jobs that have to go.
type giving struct {
	last  string        // attempt of the one whose turn it is
	since time.Duration // when it came
	hung  []string      // attempts that did not go in time
}

// A behind is a background job.
type behind struct {
	attempt string
	since   time.Time
	devs    []*device
}

// Called reports whether another run waits for devices and is not in the background.
func (p *Pool) Called() bool {
	return slices.ContainsFunc(p.others, func(w Wish) bool { return !w.Background })
}

// GiveWay returns the attempt of the background job that has to go now, and for whom; ""
// for none. It may be another run's. next is when that may change by time alone; 0 for never.
func (p *Pool) GiveWay(now time.Duration) (attempt, why string, next time.Duration) {
	r := p.newRound(now)
	r.deal()
	by := func(at time.Duration) {
		if now < at && (next == 0 || at < next) {
			next = at
		}
	}
	for i := range p.others {
		if w := &p.others[i]; !w.Background {
			by(w.seen + p.Courtesy())
		}
	}
	for _, o := range p.passed {
		by(o.until)
	}
	w, _, jobs := r.call()
	if w == nil {
		p.giving = giving{hung: p.hanging()}
		return "", "", next
	}
	b := jobs[0]
	if p.giving.last != b.attempt {
		p.giving.last, p.giving.since = b.attempt, now
	}
	if now >= p.giving.since+giveWayFor {
		p.giving.hung = append(p.giving.hung, b.attempt)
		return p.GiveWay(now)
	}
	by(p.giving.since + giveWayFor)
	return b.attempt, fmt.Sprintf("gives way to %s, who waits since %s", userName(w.User, w.UID), w.Since.Local().Format("15:04")), next
}

// hanging returns the attempts that did not go in time and are still there.
func (p *Pool) hanging() []string {
	return slices.DeleteFunc(p.giving.hung, func(attempt string) bool {
		return !slices.ContainsFunc(p.devs, func(d device) bool {
			return d.hold(attempt) != nil || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.Attempt == attempt })
		})
	})
}

// call returns the first foreground wish, if any, that has lasted long enough and that
// what was dealt does not satisfy, though it would if background jobs left: the devices
// that would then do for it, and the jobs on these, the one that has to go first.
func (r *round) call() (*Wish, []*device, []behind) {
	for _, w := range r.order(nil) {
		if w.Background || w == &r.p.own || r.now < w.seen+r.p.Courtesy() || r.wants[slices.Index(r.wishes, w)] <= 0 {
			continue
		}
		for i := range w.Asks {
			a := &w.Asks[i]
			devs := r.left(w, a)
			if a.Jobs <= 0 || a.Room < a.Min || len(devs) < a.Min {
				continue
			}
			if jobs := r.behind(devs); len(jobs) > 0 {
				return w, devs, jobs
			}
		}
	}
	return nil, nil, nil
}

// left returns the devices that would do for an ask if no background job were on any.
func (r *round) left(w *Wish, a *Ask) (devs []*device) {
	for i := range r.p.devs {
		d := &r.p.devs[i]
		if o := r.dealt[i]; o != nil && o != w && !o.Background {
			continue
		}
		if bare := d.without(behindOnly, r.p.rules.Background); a.fits(&bare, w.UID, w.Run) {
			devs = append(devs, d)
		}
	}
	return devs
}

// behind returns the background jobs on some devices, the last one started first, without
// those that do not go.
func (r *round) behind(devs []*device) (jobs []behind) {
	add := func(attempt string, since time.Time, d *device) {
		k := slices.IndexFunc(jobs, func(b behind) bool { return b.attempt == attempt })
		if k < 0 {
			if slices.Contains(r.p.giving.hung, attempt) {
				return
			}
			k = len(jobs)
			jobs = append(jobs, behind{attempt: attempt, since: since})
		}
		jobs[k].devs = append(jobs[k].devs, d)
	}
	for _, d := range devs {
		for _, h := range d.holds {
			if r.p.rules.Background {
				add(h.attempt, h.since, d)
			}
		}
		for i := range d.claims {
			if c := &d.claims[i]; c.Background && c.To == "" {
				add(c.Attempt, c.Since, d)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b behind) int { return cmp.Or(b.since.Compare(a.since), cmp.Compare(b.attempt, a.attempt)) })
	return jobs
}

func behindOnly(c *Claim) bool { return c.Background && c.To == "" }

// without returns what a device would be like without the jobs of some claims, and if own
// without those of this run.
func (d *device) without(some func(c *Claim) bool, own bool) device {
	v := *d
	v.claims = slices.DeleteFunc(slices.Clone(d.claims), func(c Claim) bool { return some(&c) })
	if own {
		v.holds = nil
	}
	if len(v.claims) == len(d.claims) && len(v.holds) == len(d.holds) {
		return v
	}
	gone := func(pr Process) bool {
		theirs := pr.Attempt == "" && slices.ContainsFunc(d.claims, func(c Claim) bool { return some(&c) && c.UID == pr.UID })
		return theirs || own && d.hold(pr.Attempt) != nil
	}
	v.procs = slices.DeleteFunc(slices.Clone(d.procs), gone)
	v.tally, v.back = tally{hidden: d.hidden}, false
	if v.free = d.bare; v.free == 0 {
		v.free = mostOf(d.Total)
	}
	v.free -= d.hidden
	for i := range v.procs {
		v.free -= max(0, v.procs[i].Memory)
	}
	return v
}

// owed returns the devices without a job that a background run leaves to a wish that background jobs
// give way to, although it cannot start yet.
func (p *Pool) owed(now time.Duration) []*device {
	if !p.rules.Background || !p.Called() {
		return nil
	}
	r := p.newRound(now)
	r.deal()
	_, devs, _ := r.call()
	return slices.DeleteFunc(devs, func(d *device) bool { return len(d.holds) > 0 })
}

// Closed describes why the host's hours let no job start on one of these devices now, or
// returns "".
func (p *Pool) Closed(now time.Duration, ids []UUID) string {
	for d := range p.among(ids) {
		if why := p.closed(now, d); why != "" {
			return "GPU " + d.label() + ": " + why
		}
	}
	return ""
}
