package hostsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A handUser starts a program by hand.
type handUser struct {
	uid   int
	at    time.Duration
	types time.Duration // time to type the command after looking
	runs  time.Duration
	where uint64
}

// byHand simulates a user who looks for a GPU with nvidia-smi and starts a program there.
func (h *host) byHand(g handUser) {
	h.after(g.at, func() { h.look(g, 6) })
}

func (h *host) look(g handUser, tries int) {
	free := h.free()
	if len(free) == 0 {
		if tries > 0 {
			h.after(10*time.Minute, func() { h.look(g, tries-1) })
		}
		return
	}
	on := free[int(g.where)%len(free)]
	h.after(g.types, func() {
		p := h.start(g.uid, "", []int{on}, time.Second)
		h.after(g.runs, func() { h.end(p) })
	})
}

// free returns the GPUs on which nvidia-smi shows no process.
func (h *host) free() (free []int) {
	for i := range h.gpus {
		seen := false
		for p := range h.running(i) {
			seen = seen || p.seen <= h.now
		}
		if !seen {
			free = append(free, i)
		}
	}
	return free
}

// A loop is a common shell loop: every 30 s, it runs nvidia-smi and starts a job if enough GPUs are
// free.
type loop struct {
	*host
	uid  int
	left []job
}

const loopEvery = 30 * time.Second

func (h *host) loop(uid int, jobs []job) {
	l := &loop{host: h, uid: uid, left: jobs}
	h.meter.pass()
	h.queues = append(h.queues, l)
	h.meter.pass()
	l.turn()
}

func (l *loop) waits() (jobs, each int) { return pending(l.left) }

// pending returns the number of jobs, and the number of GPUs that the first one needs.
func pending(left []job) (jobs, each int) {
	if len(left) == 0 {
		return 0, 0
	}
	return len(left), left[0].gpus
}

func (l *loop) turn() {
	if len(l.left) == 0 {
		return
	}
	if free := l.free(); len(free) >= l.left[0].gpus {
		j := l.left[0]
		l.left = l.left[1:]
		l.begin(l.uid, j, free[:j.gpus], l.between(200*time.Millisecond, 3*time.Second), nil)
	}
	l.after(loopEvery, l.turn)
}

// begin runs a job on some GPUs.
func (h *host) begin(uid int, j job, on []int, sees time.Duration, over func()) {
	h.seq++
	p := h.start(uid, fmt.Sprintf("job-%d", h.seq), on, min(sees, j.runs/2))
	h.meter.stands(&attempt{proc: p, began: h.now})
	h.after(j.runs, func() {
		if over != nil {
			over()
		}
		h.meter.finished(nil)
		h.end(p)
	})
}

// A central is a central scheduler without delays. It orders users by the GPUs they hold, then by
// past use, then by waiting time. The first in line gathers GPUs once the host's patience is over.
type central struct {
	*host
	runs []*queue
	used map[int]*account
}

type queue struct {
	uid   int
	left  []job
	holds int
	since time.Duration
	of    *central
}

// An account is a user's past use, halved every day.
type account struct {
	holds   int
	seconds float64
	at      time.Duration
}

func (a *account) pass(now time.Duration) {
	d := (now - a.at).Seconds()
	a.seconds = a.seconds*math.Exp2(-d/(24*3600)) + float64(a.holds)*d
	a.at = now
}

func (h *host) central() *central {
	c := &central{host: h, used: map[int]*account{}}
	h.ended = c.deal
	return c
}

func (c *central) add(uid int, jobs []job) {
	q := &queue{uid: uid, left: jobs, since: c.now, of: c}
	c.meter.pass()
	c.runs = append(c.runs, q)
	c.queues = append(c.queues, q)
	if c.used[uid] == nil {
		c.used[uid] = &account{at: c.now}
	}
	c.meter.pass()
	c.deal()
}

func (q *queue) waits() (jobs, each int) { return pending(q.left) }

func (c *central) deal() {
	for {
		var idle []int
		for i := range c.gpus {
			if c.idle(i) {
				idle = append(idle, i)
			}
		}
		for _, uid := range sortedKeys(c.used) {
			c.used[uid].pass(c.now)
		}
		list := slices.DeleteFunc(slices.Clone(c.runs), func(q *queue) bool { n, _ := q.waits(); return n == 0 })
		slices.SortFunc(list, func(a, b *queue) int {
			x, y := c.used[a.uid], c.used[b.uid]
			return cmp.Or(x.holds-y.holds, cmp.Compare(x.seconds, y.seconds), cmp.Compare(a.uid, b.uid), a.holds-b.holds, cmp.Compare(a.since, b.since))
		})
		fits := func(q *queue) bool { _, each := q.waits(); return each <= len(idle) }
		if len(list) > 0 && !fits(list[0]) && c.now-list[0].since >= c.rules.Patience {
			return // the first in line gathers the GPUs it needs
		}
		i := slices.IndexFunc(list, fits)
		if i < 0 {
			return
		}
		q := list[i]
		j := q.left[0]
		q.left, q.since = q.left[1:], c.now
		u := c.used[q.uid]
		u.holds, q.holds = u.holds+j.gpus, q.holds+j.gpus
		c.begin(q.uid, j, idle[:j.gpus], time.Second, func() {
			u.pass(c.now)
			u.holds, q.holds = u.holds-j.gpus, q.holds-j.gpus
		})
	}
}

func sortedKeys[V any](m map[int]V) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
