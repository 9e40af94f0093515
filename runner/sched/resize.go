package sched

import (
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A resize gives a running job more or fewer GPUs. The engine asks it to save its work and ends its
// attempt, which is not a failure. The job then starts again on the GPUs that it keeps and the free
// ones that it gets in addition. In between, the job is in a move.
//
// A job shrinks only for a waiting run, which is offered the GPUs. That run's wish must be ahead of
// this run's, unless the job makes little use of its GPUs. A job grows if it uses its GPUs well and
// no other run wants the free ones.
//
// Resizing is part of Core, not a separate policy: it ends an attempt, holds its GPUs in between,
// deals the others, and starts the job again, so it would need nearly all of Core.

const (
	whole       = time.Second // how long a job waits for all GPUs of its next attempt
	declinedFor = time.Hour   // how long jobs give up no more GPUs for a user who did not take the last ones
)

// resizes tracks this run's elastic jobs.
type resizes struct {
	possible bool                    // some job may be resized
	moves    []move                  // in the order of their ends
	last     map[int32]time.Duration // by job: when it was last resized or asked to save, in any run
	declined map[int]time.Duration   // by uid of a user who did not take GPUs that a job gave up: when jobs may give up GPUs for them again
	growing  bool                    // some job could grow, so all GPUs are read
	warned   map[int32]bool          // jobs already warned about, because the engine did not ask them to save
}

// A move is a job between two attempts of a resize. It expires after a while.
type move struct {
	job   int32
	ids   []gpu.UUID // the GPUs for its next attempt
	least int        // how many of them it must get: those it had, or its minimum if that is more
	began time.Duration
}

// elastic tracks an attempt's load for resizes.
type elastic struct {
	pushed bool                       // this run asked it to save its work
	grows  bool                       // it can have more GPUs
	idle   bool                       // it hardly uses its GPUs
	spare  map[gpu.UUID]time.Duration // GPUs that it could have in addition, and since when
	seen   time.Duration              // time of the reading that spare is from
}

// remember reads from the history when jobs were last resized.
func (c *Core) remember() {
	for id := range c.each {
		if c.spec(id).Resize.Up == 0 {
			continue
		}
		c.resizes.possible = true
		_, known := c.resizes.last[id]
		if r := c.last(id); !known && r != nil && r.Why == state.WhyResize {
			c.resizes.last[id] = c.now.Boot - max(0, c.now.Wall.Sub(r.Time))
		}
	}
}

// resize asks jobs that should have more or fewer GPUs to save their work.
func (c *Core) resize() {
	c.growing = false
	if !c.resizes.possible || !c.begun || c.pool == nil || c.draining != "" || c.paused || c.outsideHours() != "" {
		return
	}
	c.pool.Turns.SetWish(c.currentWish())
	for a := range c.live.started {
		if c.canResize(a) && (c.shrinks(a) || c.grows(a)) {
			a.pushed = true
			c.resizes.last[a.job] = c.now.Boot
			r := &c.spec(a.job).Resize
			c.do(Save{UniID: a.uniID, Signal: r.Signal, Wait: r.Grace})
		}
	}
}

// canResize reports whether an attempt may be resized now, regardless of other runs. Its job must
// be able to start again immediately.
func (c *Core) canResize(a *attempt) bool {
	if a.job < 0 || a.stop != "" || a.asked || a.background != "" || a.queued || a.suspended || a.gpus() == 0 {
		return false
	}
	j, r := &c.jobs[a.job], &c.spec(a.job).Resize
	last, ever := c.resizes.last[a.job]
	return r.Up > 0 && j.phase == running && j.own == 1 && !j.quit && !j.paused && !j.gone && (!ever || c.now.Boot-last >= r.Every)
}

// shrinks reports whether an attempt gives up GPUs now.
func (c *Core) shrinks(a *attempt) bool {
	percent, long, known := c.load(a)
	a.grows, a.idle = false, long && known && percent < c.spec(a.job).Resize.Down
	return len(c.releasable(a)) > 0
}

// releasable returns the GPUs that an attempt could leave to other runs now. Background runs do not
// shrink jobs but stop them.
func (c *Core) releasable(a *attempt) []gpu.ReleasableDevice {
	if c.b.Settings.Background || !c.pool.Turns.HasRivals() && (!a.idle || c.waiter.id < 0) {
		return nil
	}
	declined := func(uid int) bool { return c.now.Boot < c.resizes.declined[uid] }
	return c.pool.Turns.Releasable(c.now.Boot, a.uniID, c.request(a.job), a.idle, declined)
}

// widest returns the most GPUs that an elastic job may have.
func (c *Core) widest(id int32) int {
	most := c.spec(id).Request.Max
	if limit := c.pool.Host().MaxGPUsPerJob; limit >= 0 {
		most = min(most, limit)
	}
	return most
}

// grows reports whether an attempt can have more GPUs now.
func (c *Core) grows(a *attempt) bool {
	percent, long, known := c.load(a)
	// long does not matter yet: its GPUs may be busy, and others free, during the same minute.
	if !known || percent <= c.spec(a.job).Resize.Up || len(a.grant.UUIDs) >= c.widest(a.job) || c.waiter.id >= 0 || len(c.moves) > 0 {
		a.spare, a.seen = nil, 0
		return false
	}
	c.growing = true
	if a.seen == c.readings.succeeded || c.readings.succeeded == 0 {
		return false
	}
	a.seen = c.readings.succeeded
	before := a.spare
	a.spare, a.grows = map[gpu.UUID]time.Duration{}, false
	for _, id := range c.spares(a) {
		since, known := before[id]
		if !known {
			since = c.now.Boot
		}
		a.spare[id] = since
		a.grows = a.grows || c.now.Boot-since >= c.opts.Steady
	}
	return a.grows && long && c.pool.FitsAfterRelease(c.now.Boot, a.uniID, c.request(a.job))
}

// spares returns the free GPUs that an attempt could have in addition and that no other run
// waits for.
func (c *Core) spares(a *attempt) []gpu.UUID {
	req := c.request(a.job)
	req.Min = len(a.grant.UUIDs) + 1 // more than one, which rules out MIG instances
	free, _ := c.pool.Candidates(c.now.Boot, req, c.unavailable(-1))
	return slices.DeleteFunc(free, func(id gpu.UUID) bool { return c.pool.Turns.Wanted(id) })
}

// load returns how busy the GPUs of an attempt were in the last minute, in percent. long reports
// whether the attempt has held them for that entire minute.
func (c *Core) load(a *attempt) (percent int, long, known bool) {
	since := c.now.Boot - c.opts.Steady
	percent, known = c.pool.Busy(c.now.Boot, max(a.began, since), a.grant.UUIDs)
	return percent, a.began <= since, known
}

// on records that an attempt was not asked to save its work. The attempt is asked again later,
// since a script may install its handler late.
func (ev Declined) on(c *Core) {
	a := c.live.byID[ev.UniID]
	if a == nil || a.job < 0 {
		return
	}
	a.pushed = false
	if !c.resizes.warned[a.job] {
		c.resizes.warned[a.job] = true
		c.do(Warn{Text: fmt.Sprintf("%s keeps its GPUs despite resize: %s (it must catch the signal, save its work and exit)", a.name, ev.Why)})
	}
}

// A plan distributes the GPUs of an attempt that ended for a resize.
type plan struct {
	move
	gifts []gpu.ReleasableDevice
}

// plan returns the plan for an ended attempt that still holds its GPUs; nil if it did not end for a
// resize, or if its job now needs more GPUs than it can have. The need for the resize may be gone by
// now.
func (c *Core) plan(a *attempt, f *state.Fact) *plan {
	if f.Why != state.WhyResize || f.State != state.Interrupted {
		return nil
	}
	had := len(a.grant.UUIDs)
	if a.job < 0 || !c.onPool(a) || !c.begun {
		return nil
	}
	c.resizes.last[a.job] = c.now.Boot
	c.pool.Turns.SetWish(c.currentWish())
	p := &plan{gifts: c.releasable(a)}
	p.job, p.began = a.job, c.now.Boot
	for _, id := range a.grant.UUIDs {
		if !slices.ContainsFunc(p.gifts, func(g gpu.ReleasableDevice) bool { return g.UUID == id }) {
			p.ids = append(p.ids, id)
		}
	}
	p.ids = p.ids[:min(len(p.ids), c.widest(a.job))] // a user may have lowered the limit
	p.least = len(p.ids)
	why := ""
	if len(p.gifts) > 0 {
		why = p.gifts[0].Turn.Why
	} else if (a.grows || !a.pushed) && c.waiter.id < 0 { // an earlier run may have asked it to grow
		spares := c.spares(a)
		p.ids = append(p.ids, spares[:min(len(spares), max(0, c.widest(a.job)-p.least))]...)
	}
	least := c.spec(a.job).Request.Min
	if len(p.ids) < least {
		return nil
	}
	p.least = max(p.least, least)
	f.Reason = join(fmt.Sprintf("from %s to %d", state.Count(had, "GPU"), len(p.ids)), why)
	return p
}

// move carries out a plan, once the GPUs of the attempt are released.
func (c *Core) move(a *attempt, p *plan) {
	for i := range c.hands {
		h := &c.hands[i]
		if h.claim != a.uniID {
			continue
		}
		if g := slices.IndexFunc(p.gifts, func(g gpu.ReleasableDevice) bool { return g.UUID == h.id }); g < 0 {
			h.dealt = slices.Contains(p.ids, h.id) // to the job itself
		} else if turn := p.gifts[g].Turn; !turn.Own {
			h.gift = true
			c.offer(h, turn)
		}
	}
	c.moves = append(c.moves, p.move)
}

// endMoves ends the moves with more or fewer GPUs than their jobs now allow.
func (c *Core) endMoves() {
	c.moves = slices.DeleteFunc(c.moves, func(m move) bool {
		req := c.spec(m.job).Request
		return m.least < req.Min || len(m.ids) > req.Max
	})
}

// resume starts the jobs in moves whose GPUs are ready.
func (c *Core) resume() {
	moves := c.moves
	c.moves = nil
	for _, m := range moves {
		switch {
		case c.jobs[m.job].phase != pending:
		case c.now.Boot >= m.began+handOverFor || c.gaveUp:
			c.consider(m.job)
		case !c.resumed(&m):
			c.moves = append(c.moves, m)
		}
	}
}

func (c *Core) resumed(m *move) bool {
	cl := c.classOf(m.job)
	c.jobs[m.job].class = cl
	if c.slots() != nil || c.counts[preparing] >= maxPreparing || c.room(m.job) != nil {
		return false
	}
	aside := c.unavailable(-1)
	for _, d := range c.pool.Devices() {
		if !slices.Contains(m.ids, d.UUID) {
			aside = append(aside, d.UUID)
		}
	}
	req := cl.req
	req.Min, req.Max = len(m.ids), len(m.ids)
	if c.now.Boot >= m.began+whole {
		req.Min = m.least
	}
	g, ok := c.pool.Find(c.now.Boot, req, aside)
	if ok = ok && c.current(g); ok {
		c.grant(m.job, g)
	}
	return ok
}

// moving reports whether a job is in a move.
func (r *resizes) moving(id int32) bool {
	return slices.ContainsFunc(r.moves, func(m move) bool { return m.job == id })
}
