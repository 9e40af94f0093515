package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// The breaker holds a family of jobs, which differ only in parameters, when the first
// attempts of several of them in this run failed alike: soon after their start, the same
// way, on different GPUs, and without a success. The other jobs would most likely fail too.
// A held job has not ended: it runs in the next run, or in this one if an attempt of
// another succeeds after all. Jobs that have been tried keep their retries.

// early is how soon after its start an attempt has to fail to be one that never got
// going.
const early = time.Minute

// breaker is what this run has learned about families.
type breaker struct {
	families map[uint64]*family // by jobspec.Spec.Template
	held     []*family          // in the order they were held
	lifted   bool               // some family was released again, or jobs that had ended have begun again
}

type family struct {
	worked  bool // an attempt succeeded
	streaks []*streak
	hold    *streak // why it is held; nil if it is not
}

// maxStreaks bounds the ways to fail that are told apart. A family with more of them is
// not failing alike.
const maxStreaks = 16

// A streak is the jobs of one family whose first attempts failed the same way.
type streak struct {
	kind    string
	failure state.Failure // of the first of them
	count   int
	gpus    []int      // indices they ran on, ascending
	common  []gpu.UUID // devices that all of them ran on
}

// family returns what is known of a job's family, or nil.
func (c *Core) family(id int32) *family { return c.breaker.families[c.spec(id).Template] }

// watch takes account of the end of an attempt of a job in this batch.
func (c *Core) watch(a *attempt, f state.Fact) {
	if c.b.Settings.Breaker <= 0 || a.job < 0 {
		return
	}
	fam := c.family(a.job)
	if fam == nil {
		fam = &family{}
		c.breaker.families[c.spec(a.job).Template] = fam
	}
	switch {
	case f.State == state.Succeeded:
		fam.worked, fam.streaks = true, nil
		c.letGo(fam)
	case !fam.worked && a.n == 1 && !a.adopted && c.telling(a.job, f):
		s := fam.add(a, f.Failure())
		if fam.hold == nil && s != nil && c.enough(a.job, s) {
			c.hold(fam, s)
		}
	}
}

// telling reports whether a failure says something about the whole family. One that the
// next attempt answers with more memory does not.
func (c *Core) telling(id int32, f state.Fact) bool {
	grows := f.ErrorType == state.ErrOOM && c.spec(id).Retry.MemoryGrowth > 1
	robbed := f.ErrorType == state.ErrOOM && f.Uncharged != ""
	return f.ErrorType != "" && f.ErrorType != state.ErrLost && !grows && !robbed && f.Seconds <= early.Seconds()
}

// add counts a failure of the family and returns its streak, or nil if there are too
// many.
func (fam *family) add(a *attempt, fl state.Failure) *streak {
	kind := fl.Kind()
	i := slices.IndexFunc(fam.streaks, func(s *streak) bool { return s.kind == kind })
	if i < 0 {
		if len(fam.streaks) == maxStreaks {
			return nil
		}
		i = len(fam.streaks)
		fam.streaks = append(fam.streaks, &streak{kind: kind, failure: fl, common: slices.Clone(a.grant.UUIDs)})
	}
	s := fam.streaks[i]
	s.count++
	s.common = slices.DeleteFunc(s.common, func(id gpu.UUID) bool { return !slices.Contains(a.grant.UUIDs, id) })
	s.gpus = append(s.gpus, a.grant.Indices...)
	slices.Sort(s.gpus)
	s.gpus = slices.Compact(s.gpus)
	return s
}

// enough reports whether a streak holds its family. While all its failures were on one
// GPU, the GPU may be at fault: if the job could run on another, that is tried first, and
// it takes twice as many failures.
func (c *Core) enough(id int32, s *streak) bool {
	n := c.b.Settings.Breaker
	return s.count >= n && (len(s.common) == 0 || s.count >= 2*n || !c.another(id, s.common))
}

// another reports whether a job could ever run on GPUs other than these.
func (c *Core) another(id int32, ids []gpu.UUID) bool {
	if c.pool == nil {
		return false
	}
	req, n := c.request(id), 0
	for _, v := range c.pool.Admit(c.now.Boot, req) {
		if !v.Never && !slices.Contains(ids, v.UUID) && !slices.Contains(c.excluded, v.UUID) {
			n++
		}
	}
	return n >= max(req.Min, 1)
}

// avoided returns the GPUs on which a job's family failed so often that others should be
// tried first.
func (c *Core) avoided(id int32) []gpu.UUID {
	if fam := c.family(id); fam != nil {
		for _, s := range fam.streaks {
			if s.count >= c.b.Settings.Breaker {
				return s.common
			}
		}
	}
	return nil
}

// isHeld reports whether a job's family is held, and the job has not been tried in this run.
func (c *Core) isHeld(id int32) bool {
	fam := c.family(id)
	return fam != nil && fam.hold != nil && c.jobs[id].attempt == 0
}

// Held reports whether a job's family is held and it has yet to run.
func (c *Core) Held(job int) bool { return c.jobs[job].phase == held && c.isHeld(int32(job)) }

// needsHeld reports whether a job needs one that is held.
func (c *Core) needsHeld(id int32) bool {
	return c.counts[held] > 0 && slices.ContainsFunc(c.b.Jobs[id].Needs, func(n int32) bool { return c.jobs[n].phase == held })
}

// hold keeps further jobs of a family, and jobs that need them, from starting.
func (c *Core) hold(fam *family, s *streak) {
	fam.hold = s
	c.breaker.held = append(c.breaker.held, fam)
	for i := range c.jobs {
		id := int32(i)
		if p := c.jobs[i].phase; (p == pending || p == ready) && c.family(id) == fam && c.isHeld(id) {
			c.holdJob(id)
		}
	}
	c.refill = true
}

// holdJob holds a job and all that wait for its success. Their queues continue without them.
func (c *Core) holdJob(id int32) {
	open := []int32{id}
	c.set(id, held)
	for len(open) > 0 {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		for _, d := range c.graph.needers(id) {
			if c.jobs[d].phase == pending && !c.anyway(d) {
				c.set(d, held)
				open = append(open, d)
			}
		}
		c.queueMoves(c.b.Jobs[id].Queue)
	}
}

// letGo lets the jobs of a family start again after an attempt of it succeeded.
func (c *Core) letGo(fam *family) {
	if fam.hold == nil {
		return
	}
	fam.hold = nil
	c.breaker.held = slices.DeleteFunc(c.breaker.held, func(f *family) bool { return f == fam })
	c.recount()
}

// needsEnded moves a job on that was held because of a need, once the user has ended that
// need.
func (c *Core) needsEnded(id int32) {
	j := &c.jobs[id]
	if j.phase != held || c.concluding || j.unmet > 0 && !c.blocks(id) || c.isHeld(id) {
		return
	}
	c.set(id, pending)
	if q := c.b.Jobs[id].Queue; q >= 0 {
		c.queues[q].next, c.breaker.lifted = 0, true
	}
}

// whyHeld returns why a job does not start that is held or needs one that is.
func (c *Core) whyHeld(id int32) *schema.Wait {
	if c.isHeld(id) {
		s := c.family(id).hold
		return waits(schema.WaitBreaker, "held: the first attempts of %d similar jobs failed alike: %s; gpurun retry %s lets them start", s.count, s.failure.Cause(), c.name(id))
	}
	if w := c.late(id); w != nil {
		return w
	}
	for _, n := range c.b.Jobs[id].Needs {
		if c.jobs[n].phase == held {
			return waits(schema.WaitBreaker, "needs %s, which is held", c.name(n)).On(c.name(n))
		}
	}
	switch m := c.health.jobs[id]; {
	case m != nil && m.excused > maxExcused:
		return waits(schema.WaitGPUs, "it died on every GPU that it could have; the next run tries it again")
	case c.gaveUp:
		return waits(schema.WaitGPUs, "gave up: no GPU became free in time")
	}
	return waits(schema.WaitDraining, "nothing more starts: %s", c.draining)
}

// viewHeld returns the families that are held.
func (c *Core) viewHeld() (list []state.Held) {
	if len(c.breaker.held) == 0 {
		return nil
	}
	jobs := map[*family][]int32{}
	for i := range c.jobs {
		if c.jobs[i].phase == held {
			fam := c.family(int32(i))
			jobs[fam] = append(jobs[fam], int32(i))
		}
	}
	for _, fam := range c.breaker.held {
		if ids := jobs[fam]; len(ids) > 0 && len(list) < maxHeld {
			s := fam.hold
			list = append(list, state.Held{
				Jobs: len(ids), First: c.name(ids[0]), Attempts: s.count, Cause: s.failure.Cause(), GPUs: slices.Clone(s.gpus),
			})
		}
	}
	return list
}
