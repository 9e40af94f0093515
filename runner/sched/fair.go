package sched

import (
	"reflect"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// wishing tracks the wish that this run has published.
type wishing struct {
	published   gpu.Wish
	publishedAt time.Duration
	since       time.Time     // when this run last got a GPU, or began to wait if that was later
	theirs      []gpu.UUID    // free GPUs that another run is next in line for
	turnChanges time.Duration // when theirs next changes merely because time passes; 0 for never
	heard       []gpu.Claim   // other runs' claims, as last read
	giveWayAt   time.Duration // when this background run may have to give way even if nothing else changes; 0 for never
}

const (
	// maxAsks bounds the requests in a wish.
	maxAsks = 8

	// wishEvery is how often a wish is published again if only its Since has changed.
	wishEvery = time.Second
	wishSlow  = 30 * time.Second // if nothing but the GPU time used has changed

	// lookEvery is how often, at most, changed claims of other runs lead to a reading of all GPUs.
	lookEvery = time.Second
)

// on updates the claims and wishes of other runs. It immediately reads a GPU that is offered to
// this run. After any other change of the claims, it reads all GPUs if a job waits.
func (ev ClaimsChanged) on(c *Core) {
	if c.pool == nil {
		return
	}
	c.pool.ObserveOthers(c.now.Boot, ev.Claims, ev.Wishes)
	c.refill = true
	if !slices.EqualFunc(ev.Claims, c.heard, sameClaim) {
		c.readings.next = min(c.readings.next, c.readings.all.at+lookEvery)
	}
	c.heard = ev.Claims
	c.receiveOffers()
}

func sameClaim(a, b gpu.Claim) bool {
	a.Taken, b.Taken = 0, 0
	return a == b
}

// receiveOffers begins the hand-over of GPUs that other runs offer to this one.
func (c *Core) receiveOffers() {
	for _, id := range c.pool.Offered() {
		if !slices.ContainsFunc(c.hands, func(h handOver) bool { return h.id == id }) {
			c.hands = append(c.hands, handOver{id: id, open: true, began: c.now.Boot, due: c.now.Boot, pause: handOverFirst, dealt: true, given: true})
		}
	}
}

// dealFreed decides which run gets the GPUs that attempts of this run have just left.
func (c *Core) dealFreed() {
	if len(c.hands) == 0 {
		return
	}
	c.settleOffers()
	if !c.pool.Turns.HasRivals() {
		return
	}
	wanted := false
	for i := range c.hands {
		h := &c.hands[i]
		if h.claim == "" || h.dealt || slices.Contains(c.excluded, h.id) {
			continue
		}
		if !wanted {
			c.pool.Turns.SetWish(c.currentWish())
			wanted = true
		}
		turn, ok := c.pool.Turns.Next(c.now.Boot, h.id, c.undealt()...)
		if h.dealt = true; ok && !turn.Own {
			c.offer(h, turn)
		}
	}
}

// offer offers another run a GPU that an attempt of this run has left.
func (c *Core) offer(h *handOver, turn gpu.Turn) {
	h.turn, h.dealt = turn, true
	h.open, h.until = false, c.now.Boot+c.pool.Turns.Courtesy()
	c.pool.Offer(h.id, turn.Run)
	c.do(Offer{UniID: h.claim, UUID: h.id, To: turn.Run})
}

// undealt returns the GPUs that attempts of this run have left and that are not dealt yet.
func (d *devices) undealt() (ids []gpu.UUID) {
	for i := range d.hands {
		if h := &d.hands[i]; h.claim != "" && !h.dealt && !slices.Contains(d.excluded, h.id) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// settleOffers ends the offers that were taken, that have expired, or that the other run no longer
// wants. The GPUs of offers that were not taken are dealt again.
func (c *Core) settleOffers() {
	for i := range c.hands {
		h := &c.hands[i]
		late := c.now.Boot >= h.until
		switch {
		case h.until == 0:
		case c.pool.WasTaken(h.id, h.turn):
			h.until, c.refill = 0, true
		case late || c.offersBefore(i) >= c.pool.Turns.Wants(c.now.Boot, h.turn):
			// A user is not skipped if a third run's claim kept them from taking the GPU in time.
			if late && !c.pool.ClaimedByOther(h.id) || c.pool.Turns.Renewed(h.turn) {
				c.pool.Turns.Skip(c.now.Boot, h.turn)
				if h.gift { // no job is resized for this user again for a while
					c.resizes.declined[h.turn.UID] = c.now.Boot + declinedFor
				}
			}
			c.pool.Offer(h.id, "")
			c.do(Offer{UniID: h.claim, UUID: h.id, To: c.opts.Run}) // no longer offered to another run
			left := c.now.Boot-h.began < handOverFor
			h.until, h.dealt, h.open = 0, !left, left
			h.due, h.pause, c.refill = c.now.Boot, handOverFirst, true
		}
	}
}

// offersBefore counts the offers to the same run before the i-th.
func (d *devices) offersBefore(i int) (n int) {
	for k := range d.hands[:i] {
		if h := &d.hands[k]; h.until > 0 && h.turn.Run == d.hands[i].turn.Run && h.turn.UID == d.hands[i].turn.UID {
			n++
		}
	}
	return n
}

// awaitsOffers reports whether a run with nothing left to do waits for the runs that it offers GPUs
// to, because its offers end when it exits. After lookEvery those runs notice free GPUs anyway.
func (c *Core) awaitsOffers() bool {
	return !c.stopping && slices.ContainsFunc(c.hands, func(h handOver) bool { return h.until > 0 && c.now.Boot-h.began < lookEvery })
}

// currentWish returns this run's wish.
func (c *Core) currentWish() gpu.Wish {
	w := gpu.Wish{Run: c.opts.Run, UID: c.opts.UID, Name: c.opts.Name, Since: c.since, Background: c.b.Settings.Background, Gathers: c.gathering.On, HostResources: c.live.withoutGPUs}
	w.All = c.reserved()
	if c.pool != nil {
		w.Used = c.pool.Used(c.opts.UID)
	}
	if w.Since.IsZero() {
		w.Since = c.now.Wall
	}
	if c.pool == nil || c.sealed() || c.gaveUp || !c.begun || c.slots() != nil {
		return w
	}
	w.Requests = c.wishRequests()
	return w
}

// wishRequests returns the requests of the waiting jobs. Those for GPUs come first, since GPUs are
// gathered for the first request; otherwise, they are in the order of the jobs.
func (c *Core) wishRequests() (asks []gpu.WishRequest) {
	var wanting []*class
	for _, cl := range c.classes {
		if id := c.firstOf(cl); id >= 0 && cl.impossible == "" && c.full(id) == nil && c.quota(id) == nil && (cl.gpus || c.space(id) != nil) {
			wanting = append(wanting, cl)
		}
	}
	slices.SortFunc(wanting, func(a, b *class) int {
		switch {
		case a.gpus && !b.gpus:
			return -1
		case b.gpus && !a.gpus:
			return 1
		}
		return int(a.jobs[0].rank - b.jobs[0].rank)
	})
	unused := slices.Concat(c.excluded, c.health.resting, c.pool.Sick()) // GPUs that other runs might still offer
	for _, cl := range wanting[:min(len(wanting), maxAsks)] {
		if _, ok := c.pool.Possible(cl.req); !ok {
			continue // the host's rules have changed
		}
		a := c.pool.WishRequest(c.now.Boot, cl.req, min(len(cl.jobs), c.pool.Size()), unused)
		if a.Min == 0 || max(a.Room, a.Most) > 0 && len(a.UUIDs) > 0 {
			a.HostResources = cl.HostResources
			asks = append(asks, a)
		}
	}
	return asks
}

// space returns the lack of cores or host memory that keeps a ready job from starting now, or nil.
func (c *Core) space(id int32) *schema.Wait {
	if w := c.quota(id); w != nil {
		return w
	}
	cl := c.jobs[id].class
	l := c.lack(cl.HostResources, c.reserved())
	if l == nil {
		return nil
	}
	code := schema.WaitCPUs
	switch {
	case l.First != "":
		code = schema.WaitCourtesy
	case l.Memory:
		code = schema.WaitMemory
	}
	return waits(code, "%s", l.Why(c.reserved(), cl.HostResources))
}

// reserved returns the cores and host memory of this run's jobs.
func (c *Core) reserved() gpu.HostResources {
	all := c.live.reserved
	for _, m := range c.moves {
		all.Add(gpu.HostResources{CPUs: c.spec(m.job).CPUs, RAM: c.spec(m.job).Memory}, 1)
	}
	return all
}

// lack returns the shortage of cores or host memory that other runs cause for one more job, given
// that this run holds own; nil if enough is left. Requests of runs ahead in line also count.
func (c *Core) lack(need, own gpu.HostResources) *gpu.Shortage {
	if c.pool == nil {
		return nil
	}
	return c.pool.Turns.Shortage(c.now.Boot, own, need)
}

// overcommits reports whether an attempt and the jobs of all runs together need more cores or
// memory than the host has.
func (c *Core) overcommits(a *attempt) bool {
	own := c.live.reserved
	own.Add(a.grant.HostResources, -1)
	return c.lack(a.grant.HostResources, own) != nil
}

// reserve sets aside the free GPUs that another run is next in line for.
func (c *Core) reserve() {
	if c.theirs, c.turnChanges = nil, 0; c.pool == nil || !c.pool.Turns.HasRivals() {
		return
	}
	c.pool.Turns.SetWish(c.currentWish())
	c.theirs, c.turnChanges = c.pool.Turns.Theirs(c.now.Boot)
}

// wish publishes this run's wish if it has changed. With --no-wait, a run that holds no GPU gives up
// rather than take an offer, so it publishes no wish.
func (c *Core) wish() {
	w := gpu.Wish{Run: c.opts.Run, UID: c.opts.UID, Background: c.b.Settings.Background, HostResources: c.live.withoutGPUs}
	if (c.waiter.id >= 0 || c.squeezed) && !(c.opts.NoWait && c.waiter.alone > 0) {
		w = c.currentWish()
	}
	if len(w.Requests) > 0 || len(c.live.unclaimed()) == 0 { // a start that loses a race is part of the wait
		c.since = w.Since
	}
	same := w.HostResources == c.published.HostResources && w.Background == c.published.Background && w.Gathers == c.published.Gathers && reflect.DeepEqual(w.Requests, c.published.Requests)
	age, due := c.now.Boot-c.publishedAt, wishSlow
	if !w.Since.Equal(c.published.Since) {
		due = wishEvery
	}
	if same && (len(w.Requests) == 0 || age < due) {
		return
	}
	if len(w.Requests) == 0 && len(c.live.unclaimed()) > 0 {
		return // or the runs that offered these GPUs might conclude that this run no longer wants them
	}
	c.published, c.publishedAt = w, c.now.Boot
	c.do(Wish{w})
}

// A background run stops a job when a foreground wish needs the job's GPUs, and stops all
// its jobs when its hours end. The stopped jobs run again later, and spend no retry.

// yieldToForeground stops the background jobs that must make room now.
func (c *Core) yieldToForeground() {
	if c.giveWayAt = 0; !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	why := c.outsideHours()
	for _, a := range c.live.all {
		if why != "" {
			c.preempt(a, why)
		} else if c.onPool(a) {
			c.preempt(a, c.pool.Closed(c.now.Boot, a.grant.UUIDs))
		}
	}
	if c.pool == nil || !c.pool.Turns.ForegroundWaits() {
		return
	}
	going, why, next := c.pool.Turns.NextPreempted(c.now.Boot)
	c.giveWayAt = next
	if k := slices.IndexFunc(c.live.all, func(a *attempt) bool { return a.hold() == going }); k >= 0 {
		c.preempt(c.live.all[k], why)
	}
}

// preempt stops an attempt for the reason why, unless why is "" or the attempt is already being
// stopped.
func (c *Core) preempt(a *attempt, why string) {
	if why == "" || a.stop != "" || a.asked {
		return
	}
	a.cause = why
	c.do(Warn{Text: "stopping " + a.name + ": " + why + "; gpurun runs it again later"})
	c.endAttempt(a, state.WhyPreempted, false)
}

// nextYield calls by with the times at which yieldToForeground may have something to do.
func (c *Core) nextYield(by func(time.Duration)) {
	if !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	by(c.giveWayAt)
	if c.b.Settings.Hours.String() != "" || c.pool != nil && len(c.pool.Host().Hours) > 0 {
		by(c.now.Boot + time.Minute - c.now.Wall.Sub(c.now.Wall.Truncate(time.Minute))) // hours end on the minute
	}
}
