package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// list asks the cluster about all jobs, if it is time for that: regularly, or soon if something
// waits for the answer.
func (c *Cluster) list() {
	wait := c.every
	if c.unclear {
		wait = listAtOnce
	}
	if c.listing || len(c.live)+len(c.dooms.all) == 0 || time.Since(c.listed) < wait {
		return
	}
	c.listing, c.unclear, c.listed = true, false, time.Now()
	c.late.begin("list")
	asked := map[string]bool{} // what was accepted before the list was made
	for id, s := range c.submits {
		asked[id] = s.job != "" || !s.isCalling()
	}
	c.beside(func() func() {
		rows, err := c.dialect.List(c.user).Ask()
		return func() {
			c.listing = false
			c.late.done("list", err)
			if err != nil {
				c.deaf = true
				c.Log.Warn().Err(err).Msg("list")
				return // unknown, never gone
			}
			c.learn(rows, asked)
		}
	})
}

// learn takes note of a complete list.
func (c *Cluster) learn(rows []Row, asked map[string]bool) {
	for _, s := range c.submits {
		s.rows = nil
	}
	for _, r := range rows {
		if s := c.submits[idIn(r.Name)]; s != nil {
			s.rows = append(s.rows, r)
		}
	}
	for id, s := range c.submits {
		s.there, s.shared = len(s.rows) > 0, s.open > 0 && s.isShared()
		if s.there {
			s.gone = 0
			if s.job == "" {
				s.job = s.rows[0].Job // its call was cut off
			}
		} else if asked[id] {
			s.gone++
		}
	}
	c.steering.heard(c)
	for _, e := range c.sorted() {
		if e.submit != nil {
			c.learnOf(e, asked[e.submit.id])
		}
	}
	c.learned = true
	c.sweep()
	c.past()
	if c.quota.most > 0 {
		c.quota.learn(rows, c.openTasks(), c.listed)
	}
}

// idIn returns the ID of the submission that a job's name ends with.
func idIn(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

func (c *Cluster) learnOf(e *entry, asked bool) {
	r, there := e.submit.row(e.n)
	if e.record != nil && asked {
		e.asked++
	}
	switch {
	case there:
		if r.Never && r.Reason == "" {
			r.Reason = e.row.Reason // it was asked for
		}
		e.missed = 0
		e.list(r)
		c.suspend(e, r.Suspended)
		if r.State.queued() {
			e.check(r)
			q := engine.Queued{JobID: c.jobID(e), Reason: r.Reason}
			if t := e.submit.throttle; e.held && !e.paused || r.Reason == "" && t > 0 && t < e.submit.open {
				q.Reason = cmp.Or(c.limits.String(), r.Reason)
			}
			if e.n == r.First && !r.Rest && time.Until(r.Expected) < Furthest {
				q.Expected = r.Expected
			}
			c.show(e, q)
		} else if (r.State == Active || r.State == Runs) && r.Node != "" {
			c.show(e, engine.Queued{JobID: c.jobID(e), Reason: "starting on " + r.Node})
		}
	case e.row.State.final(): // it was there, and is believed
	case asked:
		e.list(Row{})
		if e.missed++; e.missed == 1 {
			e.missing = time.Now()
		}
		c.unclear = c.unclear || e.missed < goneAfter
	}
}

// suspend tells when the cluster suspends an attempt that runs, and when it has it go on.
func (c *Cluster) suspend(e *entry, is bool) {
	if e.told && e.suspended != is {
		e.suspended = is
		c.emit(engine.Event{UniID: e.UniID, Suspended: &is})
	}
}

// Furthest is how far ahead an estimate is worth something: Slurm says next year for "not as it is now".
const Furthest = 30 * 24 * time.Hour

// list takes note of how the cluster lists an attempt.
func (e *entry) list(r Row) {
	if r.State.final() && !e.row.State.final() {
		e.over = time.Now()
	}
	if r.Suspended {
		e.beaten = time.Now() // it may stand still with its keeper, which then shows nothing
	}
	switch {
	case r.State != Runs:
		e.runs, e.running = time.Time{}, 0
	case e.runs.IsZero():
		e.runs = time.Now()
	default:
		e.running = time.Since(e.runs)
	}
	e.row = r
}

// row returns what the cluster lists of a task.
func (s *submit) row(n int) (Row, bool) {
	rest := -1
	for i, r := range s.rows {
		if r.Rest {
			rest = i
		} else if r.First <= n && n <= r.Last {
			return r, true
		}
	}
	if rest >= 0 {
		return s.rows[rest], true
	}
	return Row{}, false
}

// sweep cancels what the cluster lists under our names without an attempt that is open, in this
// run or another: a restarted controller may take finished tasks for running, and keep their GPUs.
// The second list that shows one counts: it may just be ending.
func (c *Cluster) sweep() {
	open := c.openTasks()
	seen := map[string]time.Time{}
	for _, s := range c.submits {
		for _, r := range s.rows {
			if r.Rest {
				r.First, r.Last = anyTask, anyTask
			}
			if r.State.final() || r.Rest && s.open > 0 {
				continue
			}
			for n := r.First; n <= r.Last; n++ {
				at := taskName(s.id, n)
				if open[at] || s.isElsewhere(n) {
					continue
				}
				first, again := c.strangers[at]
				if seen[at] = first; !again {
					seen[at] = time.Now()
				} else if time.Since(first) >= strangeFor {
					c.doom(s, n)
				}
				c.unclear = true
			}
		}
	}
	c.strangers = seen
}

// openTasks returns the submitted attempts that are live, by taskName.
func (c *Cluster) openTasks() map[string]bool {
	open := map[string]bool{}
	for _, e := range c.live {
		if e.submit != nil {
			open[taskName(e.submit.id, e.n)] = true
		}
	}
	return open
}

func taskName(submit string, n int) string { return submit + " " + strconv.Itoa(n) }

// strangeFor is how long a task without an attempt is left to end by itself.
const strangeFor = 5 * time.Second

// past asks about tasks that are no longer listed, for which their record is not enough, and
// about those that can never start.
func (c *Cluster) past() {
	about := map[string]bool{}
	for _, e := range c.live {
		if e.submit != nil && e.submit.job != "" && c.unexplained(e) {
			about[e.submit.job] = true
		}
	}
	if len(about) == 0 || c.asking {
		return
	}
	c.asking = true
	past := c.dialect.Past(slices.Sorted(maps.Keys(about)))
	c.beside(func() func() {
		rows, err := past.Ask()
		return func() {
			c.asking = false
			if err != nil {
				return // the cluster keeps no accounts
			}
			ends := map[string]Row{} // the last of a task counts
			for _, r := range rows {
				if r.State.final() || r.Never {
					ends[c.dialect.Task(r.Job, r.First)] = r
				}
			}
			for _, e := range c.live {
				if r, ok := ends[c.jobID(e)]; ok && c.unexplained(e) {
					e.list(r)
				}
			}
		}
	})
}

// unexplained reports whether the cluster may know more of an attempt than its list says.
func (c *Cluster) unexplained(e *entry) bool {
	if e.row.Never {
		return e.row.Reason == ""
	}
	return e.missed >= goneAfter && !e.row.State.final() && (e.record != nil || e.told || c.dialect.Traits(nil).Keeps)
}
