package sched

import (
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
)

// devices tracks what readings do not show about GPUs.
type devices struct {
	excluded []gpu.UUID                 // excluded from this run by stop --gpu
	cooling  map[gpu.UUID]time.Duration // GPUs just lost to another run, and until when to avoid them
	refusals int                        // consecutive losses to other runs
	refusal  string                     // why the last claim failed; "" if another run was first
	hands    []handOver                 // in the order in which jobs left them
}

// coolDown avoids GPUs that another run just took, or all GPUs if one could not be claimed for the
// reason why. It reads them again after a pause that grows with each consecutive loss.
func (c *Core) coolDown(ids []gpu.UUID, name, why string) {
	c.refusals, c.refusal = c.refusals+1, why
	if why != "" && c.pool != nil { // claims on other GPUs would fail, too, which may take longer than the pause
		ids = nil
		for _, d := range c.pool.Devices() {
			ids = append(ids, d.UUID)
		}
	}
	until := c.now.Boot + gpu.RaceBackoff(name, c.refusals, max(c.b.Settings.Poll, shortPause))
	for _, id := range ids {
		c.cooling[id] = max(c.cooling[id], until)
	}
	c.readings.next = min(c.readings.next, until)
}

// A handOver is a GPU that a job of this run just left, or that another run offers. Its free memory
// is read in quick succession until the next job takes it. The job's claim on it is kept until the
// next claim exists, so that the GPU changes hands without ever being unclaimed.
type handOver struct {
	id    gpu.UUID
	claim string // uni_id of the attempt whose claim is kept; "" once it is yielded
	open  bool   // no job has taken the GPU yet, and its memory may still come back
	out   bool   // a reading of it is in progress
	began time.Duration
	due   time.Duration // time of the next reading
	pause time.Duration
	turn  gpu.Turn      // the run that gets it next
	until time.Duration // when its offer to another run expires; 0 if it is not offered
	dealt bool          // whose turn it is has been decided
	gift  bool          // a job was resized to free it for turn
	given bool          // offered by another run; only a process list shows that that run's processes are gone
}

const (
	handOverFirst = 5 * time.Millisecond  // first pause between readings; it doubles each time
	handOverFine  = 20 * time.Millisecond // longest pause, or an eighth of the time since the job ended if that is longer
	handOverFor   = 30 * time.Second
)

// beginHandOver begins the hand-over of an attempt's GPUs; left lists those that the pool released.
func (c *Core) beginHandOver(a *attempt, left []gpu.UUID) {
	c.endHandOver(left)
	for _, id := range a.grant.UUIDs {
		c.hands = append(c.hands, handOver{
			id: id, claim: a.uniID, open: slices.Contains(left, id), began: c.now.Boot, due: c.now.Boot, pause: handOverFirst,
		})
	}
}

// endHandOver ends the hand-over of GPUs that a job holds again. yield releases their kept claims.
func (d *devices) endHandOver(ids []gpu.UUID) {
	d.closeHandOvers(func(h *handOver) bool { return slices.Contains(ids, h.id) })
}

// closeHandOvers ends the hand-overs for which over returns true.
func (d *devices) closeHandOvers(over func(h *handOver) bool) {
	for i := range d.hands {
		h := &d.hands[i]
		h.open = h.open && !over(h)
	}
}

// inHandOver reports whether a GPU, or any if id is "", is in hand-over.
func (d *devices) inHandOver(id gpu.UUID) bool {
	return slices.ContainsFunc(d.hands, func(h handOver) bool { return h.open && (id == "" || h.id == id) })
}

// scheduleHandOverReading schedules the next readings of GPUs in hand-over that were just read. A
// quick reading costs almost nothing, so its pauses stay in proportion to the time since the job
// ended. A process list costs milliseconds; pauses after one simply double.
func (c *Core) scheduleHandOverReading(seen gpu.Observation, quick bool) {
	now := c.now.Boot
	for i := range c.hands {
		h := &c.hands[i]
		if !h.open || !h.out || seen.Err == "" && reading(seen, h.id) == nil {
			continue
		}
		h.out, h.due = false, now+h.pause
		h.pause *= 2
		if quick {
			h.pause = min(h.pause, max(handOverFine, (now-h.began)/8))
		}
	}
}

// readHandOvers requests the readings that are due for hand-overs, and reports whether any is
// in progress.
func (c *Core) readHandOvers() (reading bool) {
	var ids []gpu.UUID
	list := false
	for i := range c.hands {
		h := &c.hands[i]
		if h.open && !h.out && h.due <= c.now.Boot && !slices.Contains(c.excluded, h.id) {
			h.out = true
			ids = append(ids, h.id)
			list = list || h.given
		}
		reading = reading || h.open && h.out
	}
	if len(ids) > 0 {
		// If other jobs use these GPUs, free memory alone does not show which job freed it.
		c.do(Read{UUIDs: ids, Processes: list || c.pool.StillInUse(ids)})
	}
	return reading
}

// nextHandOver calls by with the times at which hand-overs need attention.
func (c *Core) nextHandOver(by func(time.Duration)) {
	for _, h := range c.hands {
		if by(h.until); h.until > 0 && len(c.live.all) == 0 {
			by(h.began + lookEvery)
		}
		if h.open && (c.waiter.id >= 0 || len(c.moves) > 0) {
			by(h.began + handOverFor)
			if !h.out {
				by(h.due)
			}
		}
	}
}

// yield releases kept claims, except on GPUs in a hand-over that a job waits for, and on GPUs
// where the next attempt is being prepared and may not have its own claim yet. So a claim ends
// once the next one exists, or immediately if no job can use the GPU.
func (c *Core) yield() {
	if len(c.hands) == 0 {
		return
	}
	passing, yields := c.passing(), []Yield(nil)
	for i := range c.hands {
		h := &c.hands[i]
		if h.claim == "" || h.until > 0 || slices.Contains(passing, h.id) {
			continue
		}
		if n := len(yields); n == 0 || yields[n-1].UniID != h.claim {
			yields = append(yields, Yield{UniID: h.claim})
		}
		y := &yields[len(yields)-1]
		y.UUIDs, h.claim = append(y.UUIDs, h.id), ""
	}
	for _, y := range yields {
		c.pool.Yield(y.UUIDs)
		c.do(y)
	}
	c.hands = slices.DeleteFunc(c.hands, func(h handOver) bool { return !h.open && h.claim == "" })
}

// passing returns the GPUs whose kept claims remain: those of attempts being prepared, those kept
// for jobs being resized, and those in hand-over that, together with the free GPUs, may give some
// waiting job everything it requests. No GPU stays claimed for a job that would still have to wait
// for others.
func (c *Core) passing() (ids []gpu.UUID) {
	ids = c.live.unclaimed()
	for _, m := range c.moves {
		ids = append(ids, m.ids...)
	}
	if c.waiter.id < 0 || !c.inHandOver("") {
		return ids
	}
	aside := c.unavailable(c.waiter.id)
	for i, req := range c.failed { // the first is the waiter's
		if i == 1 {
			aside = c.unavailable(-1)
		}
		free, ours := c.pool.Candidates(c.now.Boot, req, aside)
		free = append(free, slices.DeleteFunc(ours, func(id gpu.UUID) bool { return !c.inHandOver(id) })...)
		if len(free) >= req.Min {
			ids = append(ids, slices.DeleteFunc(free, func(id gpu.UUID) bool { return !c.inHandOver(id) })...)
		}
	}
	return ids
}

// gathering tracks the GPUs that this run keeps for a waiter that needs more than are free.
type gathering struct {
	gpu.Gathering
	claims []gatherClaim
	count  int // number of claims so far
}

// has reports whether a GPU has a gathering claim.
func (g *gathering) has(id gpu.UUID) bool {
	return slices.ContainsFunc(g.claims, func(h gatherClaim) bool { return h.id == id })
}

// A gatherClaim is a gathering claim on a GPU. If it is no longer wanted while it is being made, it
// ends right afterwards.
type gatherClaim struct {
	uniID string
	id    gpu.UUID
	made  bool // other runs see it
}

// gather makes gathering claims on the selected GPUs, and ends those on other GPUs, except where a
// job's own claim is about to follow.
func (c *Core) gather() {
	g := &c.gathering
	if c.waiter.id < 0 {
		g.Gathering = gpu.Gathering{}
	}
	if len(g.IDs)+len(g.claims) == 0 {
		return
	}
	granted := c.live.unclaimed()
	g.claims = slices.DeleteFunc(g.claims, func(h gatherClaim) bool {
		over := !slices.Contains(g.IDs, h.id) && !slices.Contains(granted, h.id)
		if over && h.made {
			c.do(Ungather{UniID: h.uniID})
		}
		return over
	})
	for _, id := range g.IDs {
		if !g.has(id) {
			g.count++
			h := gatherClaim{uniID: fmt.Sprintf("%s.gather%d", c.opts.Run, g.count), id: id}
			g.claims = append(g.claims, h)
			c.do(Gather{UniID: h.uniID, Job: c.name(c.waiter.id), Grant: gpu.Grant{
				UUIDs: []gpu.UUID{id}, Gathering: true, Since: c.now.Wall, HostResources: gpu.HostResources{Ends: g.Ends},
			}})
		}
	}
	c.recordGathered()
}

// unclaimed returns the GPUs granted to jobs that may have no claim on them yet.
func (l *attempts) unclaimed() (ids []gpu.UUID) {
	for _, a := range l.all {
		if a.uniID == "" {
			ids = append(ids, a.grant.UUIDs...)
		}
	}
	return ids
}

// recordGathered records in the pool which GPUs this run gathers.
func (c *Core) recordGathered() {
	var ids []gpu.UUID
	for _, h := range c.gathering.claims {
		ids = append(ids, h.id)
	}
	c.pool.Gathered(ids)
}

// on records a gathering claim that was made, or ends it if it is no longer wanted or another run was
// first.
func (ev Gathered) on(c *Core) {
	g := &c.gathering
	i := slices.IndexFunc(g.claims, func(h gatherClaim) bool { return h.uniID == ev.UniID })
	if i >= 0 && !ev.Failed && !c.pool.Clash(c.now.Boot, g.claims[i].id, ev.Claims) {
		g.claims[i].made = true
		c.refill = true
		return
	}
	if i >= 0 {
		c.coolDown([]gpu.UUID{g.claims[i].id}, ev.UniID, "")
		g.claims = slices.Delete(g.claims, i, i+1)
		c.recordGathered()
		c.refill = true
	}
	if !ev.Failed {
		c.do(Ungather{UniID: ev.UniID})
	}
}
