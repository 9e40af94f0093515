package cluster

import (
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
)

// A quota bounds the GPUs that the user's cluster jobs request, queued or running, including those
// of other runs and manual submissions.
type quota struct {
	most   int       // 0 for any number
	others int       // GPUs of other runs' jobs in the last list
	heard  time.Time // when that list was requested
	full   int       // the last list left no room for this many GPUs; only a regular list, or the end of an attempt, can change that
	locked time.Time // when this run took the lock; zero if it does not have it
	barred time.Time // when another run was first found to have the lock; zero if none has it
	awaits bool      // this run has the lock and waits for a new list
}

// lock excludes this user's other runs, on all login nodes. It returns false while another run has
// the lock.
func (q *quota) lock(lock *os.File) bool {
	if q.locked.IsZero() && (lock == nil || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK) {
		q.locked, q.barred = time.Now(), time.Time{}
	} else if q.locked.IsZero() && q.barred.IsZero() {
		q.barred = time.Now()
	}
	return !q.locked.IsZero()
}

// unlock allows the user's other runs to submit.
func (q *quota) unlock(lock *os.File) {
	if lock != nil && !q.locked.IsZero() {
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	}
	q.locked = time.Time{}
}

// update counts the GPUs of other jobs in a list that was requested at asked. own reports whether a
// task of a submission is this run's.
func (q *quota) update(rows []Row, own func(id string, n int) bool, asked time.Time) {
	had := q.others
	q.others, q.heard = 0, asked
	for _, r := range rows {
		if r.State.final() {
			continue
		}
		for n := r.First; n <= r.Last; n++ {
			if r.Rest || !own(idIn(r.Name), n) {
				q.others += r.GPUs
			}
		}
	}
	if q.others < had {
		q.full = 0
	}
}

// room returns how many attempts that need gpus GPUs each fit in addition to those submitted by
// this run.
func (q *quota) room(submitted, gpus int) int { return max(0, q.most-q.others-submitted) / gpus }

// within returns how many of n waiting attempts, with gpus GPUs each, may be submitted now.
func (c *Cluster) within(n, gpus int) int {
	q := &c.quota
	if q.most == 0 || gpus == 0 {
		return n
	}
	if q.full > 0 && gpus >= q.full || !q.lock(c.Lock) {
		if !q.barred.IsZero() && time.Since(q.barred) > lateAfter {
			c.showQueue(1, math.MaxInt, "another of your runs is submitting jobs and holds the lock of cluster.max_gpus_total; if that run is suspended, resume it (fg or kill -CONT)")
		}
		return 0
	}
	if q.awaits = !q.heard.After(q.locked); q.awaits {
		c.unclear = true
		return 0
	}
	submitted := 0
	for _, e := range c.live {
		if e.submit != nil {
			submitted += e.gpus
		}
	}
	if n = min(n, q.room(submitted, gpus)); n == 0 {
		q.full = gpus
		c.showQueue(gpus, math.MaxInt, fmt.Sprintf("your jobs on %s already request %d GPUs, and cluster.max_gpus_total is %d", c.dialect.Name(), q.others+submitted, q.most))
	}
	return n
}

// keeps reports whether smaller attempts must leave the quota to l, the first one in the queue,
// because it has left no room for l until l's patience was over. They need not if l would not fit
// even without them.
func (c *Cluster) keeps(l *engine.Launch) bool {
	e, gpus := c.live[l.UniID], gpusOf(l)
	if c.quota.full == 0 || gpus < c.quota.full || c.quota.most-c.quota.others < gpus {
		return false
	}
	if e.short.IsZero() {
		e.short = time.Now()
	}
	if time.Since(e.short) < c.Patience {
		return false
	}
	c.showQueue(1, gpus, fmt.Sprintf("%s goes first: it needs %d GPUs, and cluster.max_gpus_total is %d", l.Job, gpus, c.quota.most))
	return true
}

// showQueue reports why no queued attempt with at least this many GPUs, but fewer than below, is
// submitted.
func (c *Cluster) showQueue(least, below int, why string) {
	for _, l := range c.queue {
		if n := gpusOf(l); least <= n && n < below {
			c.emitQueued(c.live[l.UniID], engine.Queued{Reason: why})
		}
	}
}

// RequestedGPUs returns the number of GPUs of the user's cluster jobs, queued or running.
func RequestedGPUs(w Dialect, user string) (int, error) {
	rows, err := w.List(user).Run()
	var q quota
	q.update(rows, func(string, int) bool { return false }, time.Time{})
	return q.others, err
}

// gpusOf returns the number of GPUs that a launch requests.
func gpusOf(l *engine.Launch) int {
	if l.Request == nil {
		return 0
	}
	return l.Request.GPUs
}
