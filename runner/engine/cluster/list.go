package cluster

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// list lists the cluster's jobs if a list is due: regularly, or soon if some attempt needs it.
func (c *Cluster) list() {
	wait := c.every
	if c.unclear {
		wait = listAtOnce
	}
	if c.listing || len(c.live)+len(c.cancels.all) == 0 || time.Since(c.listed) < wait {
		return
	}
	c.listing, c.unclear, c.listed = true, false, time.Now()
	c.outage.begin("list")
	asked := map[string]bool{} // submissions whose call ended before the list was requested
	for id, s := range c.submits {
		asked[id] = s.job != "" || !s.isCalling()
	}
	c.inBackground(func() func() {
		rows, err := c.dialect.List(c.user).Run()
		return func() {
			c.listing = false
			c.outage.done("list", err)
			if err != nil {
				c.unresponsive = true
				c.Log.Warn().Err(err).Msg("list")
				return // a failed list does not mean that tasks are gone
			}
			c.applyList(rows, asked)
		}
	})
}

// applyList updates all submissions and entries from a complete list.
func (c *Cluster) applyList(rows []Row, asked map[string]bool) {
	for _, s := range c.submits {
		s.rows = nil
	}
	for _, r := range rows {
		if s := c.submits[idIn(r.Name)]; s != nil {
			s.rows = append(s.rows, r)
		}
	}
	for id, s := range c.submits {
		s.shared = s.open > 0 && s.isShared()
		if len(s.rows) > 0 {
			s.gone, s.shown = 0, true
			if s.job == "" {
				s.job = s.rows[0].Job // the answer to its submission was lost
			}
		} else if asked[id] {
			s.gone++
		}
	}
	c.steering.recordAnswer(c)
	for _, e := range c.sorted() {
		if e.submit != nil {
			c.updateEntry(e, asked[e.submit.id])
		}
	}
	c.learned = true
	c.cancelStrays()
	c.past()
	if c.quota.most > 0 {
		c.quota.update(rows, c.isOpen, c.listed)
	}
}

// idIn returns the submission's ID, which is at the end of a job's name.
func idIn(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

func (c *Cluster) updateEntry(e *entry, asked bool) {
	r, there := e.submit.row(e.n)
	if e.record != nil && asked {
		e.asked++
	}
	switch {
	case there:
		if r.Never && r.Reason == "" {
			r.Reason = e.row.Reason // Past returned it
		}
		if r.Mixed && !e.held && bytes.IndexByte(e.submit.marks, heldMark) >= 0 {
			r.Reason = r.Unheld // this run holds other tasks of its array
		}
		e.missed = 0
		e.applyRow(r)
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
			c.emitQueued(e, q)
		} else if (r.State == Active || r.State == Runs) && r.Node != "" {
			c.emitQueued(e, engine.Queued{JobID: c.jobID(e), Reason: "starting on " + r.Node})
		}
	case e.row.State.final(): // the task is over, and its final row counts
	case asked:
		e.applyRow(Row{})
		if e.missed++; e.missed == 1 {
			e.missing = time.Now()
		}
		if e.submit.job != "" && !e.submit.shown && e.task == nil && e.record == nil && time.Since(e.missing) < listLag && !c.dialect.Traits(nil).Keeps {
			e.missed = 1
		}
		c.unclear = c.unclear || e.missed < goneAfter
	}
}

// listLag is how long a submission that the cluster has accepted may be missing from lists, because
// some sites cache them. It does not apply to clusters that forget nothing: their accounts may
// explain sooner why a task is missing.
const listLag = 30 * time.Second

// suspend reports when the cluster suspends or resumes a running attempt.
func (c *Cluster) suspend(e *entry, is bool) {
	if e.reported && e.suspended != is {
		e.suspended = is
		c.emit(engine.Event{UniID: e.UniID, Suspended: &is})
	}
}

// Furthest is how far ahead an estimated start may be. Later ones are ignored, because Slurm
// reports a date next year for "not under current conditions".
const Furthest = 30 * 24 * time.Hour

// applyRow updates the entry from its row.
func (e *entry) applyRow(r Row) {
	if r.State.final() && !e.row.State.final() {
		e.over = time.Now()
	}
	if r.Suspended {
		e.beaten = time.Now() // its keeper may be suspended too, and then sends no heartbeat
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

// cancelStrays cancels listed tasks of this batch's submissions that have no open attempt in any
// run: a restarted controller may consider finished tasks running, and keep their GPUs. Since a
// task may just be ending, it is cancelled only if it is still listed after strayFor.
func (c *Cluster) cancelStrays() {
	seen := map[cancellation]time.Time{}
	for _, s := range c.submits {
		for _, r := range s.rows {
			if r.Rest {
				r.First, r.Last = anyTask, anyTask
			}
			if r.State.final() || r.Rest && s.open > 0 {
				continue
			}
			for n := r.First; n <= r.Last; n++ {
				at := cancellation{s, n}
				if s.ours[n] || s.hasForeignTask(n) {
					continue
				}
				first, again := c.strayTasks[at]
				if seen[at] = first; !again {
					seen[at] = time.Now()
				} else if time.Since(first) >= strayFor {
					c.requestCancel(s, n)
				}
				c.unclear = true
			}
		}
	}
	c.strayTasks = seen
}

// isOpen reports whether task n of a submission belongs to a live attempt of this run.
func (c *Cluster) isOpen(id string, n int) bool {
	s := c.submits[id]
	return s != nil && s.ours[n]
}

// strayFor is how long a task without an attempt may take to end by itself.
const strayFor = 5 * time.Second

// past asks the cluster how unlisted tasks ended, and why some tasks can never start.
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
	c.inBackground(func() func() {
		rows, err := past.Run()
		return func() {
			c.asking = false
			if err != nil {
				return // perhaps the cluster keeps no accounts
			}
			ends := map[string]Row{} // the last row of a task counts
			for _, r := range rows {
				if r.State.final() || r.Never {
					ends[c.dialect.Task(r.Job, r.First)] = r
				}
			}
			for _, e := range c.live {
				if r, ok := ends[c.jobID(e)]; ok && c.unexplained(e) {
					e.applyRow(r)
				}
			}
		}
	})
}

// unexplained reports whether the cluster may have more information about an attempt than its list
// shows.
func (c *Cluster) unexplained(e *entry) bool {
	if e.row.Never {
		return e.row.Reason == ""
	}
	return e.missed >= goneAfter && !e.row.State.final() && (e.record != nil || e.reported || c.dialect.Traits(nil).Keeps)
}
