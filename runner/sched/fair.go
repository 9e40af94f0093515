package sched

import (
	"reflect"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// wishing is what this run has told others that it waits for.
type wishing struct {
	published   gpu.Wish
	publishedAt time.Duration
	since       time.Time     // when this run last got a GPU, or began to wait if that was later
	theirs      []gpu.UUID    // free GPUs that are another run's turn
	turnChanges time.Duration // when that changes by time alone; 0 for never
	heard       []gpu.Claim   // of others, as last read
	giveWayAt   time.Duration // when this background run may have to give way by time alone; 0 for never
	asked       requests
}

// requests are what this run waits for, and what they were computed from: most steps leave them as
// they are, and with many jobs they would be most of a step's work.
type requests struct {
	of   []askedFor
	room int
	host *gpu.HostRules
	not  int // how many GPUs are excluded
	asks []gpu.WishRequest
}

type askedFor struct {
	class *class
	jobs  int // at most as many as there are GPUs
}

const (
	// maxAsks bounds the requests in a wish.
	maxAsks = 8

	// wishEvery is how often a wish is published again of which only times have changed.
	wishEvery = time.Second
	wishSlow  = 30 * time.Second // if it is only the GPU time used

	// lookEvery is how often a change in what others claim leads to a reading of all GPUs.
	lookEvery = time.Second
)

// on learns what other runs claim and wish for now. A GPU that one of them offers to this
// run is read at once; otherwise a change is a reason to read all GPUs, if a job waits.
func (ev Noticed) on(c *Core) {
	if c.pool == nil {
		return
	}
	c.pool.ObserveOthers(c.now.Boot, ev.Claims, ev.Wishes)
	c.refill = true
	if !slices.EqualFunc(ev.Claims, c.heard, alike) {
		c.readings.next = min(c.readings.next, c.readings.all.at+lookEvery)
	}
	c.heard = ev.Claims
	c.welcome()
}

// alike reports whether a claim has not changed: how much of it is in use is no change.
func alike(a, b gpu.Claim) bool {
	a.Taken, b.Taken = 0, 0
	return a == b
}

// welcome begins the hand-over of GPUs that other runs offer to this one.
func (c *Core) welcome() {
	for _, id := range c.pool.Offered() {
		if !slices.ContainsFunc(c.hands, func(h handOver) bool { return h.id == id }) {
			c.hands = append(c.hands, handOver{id: id, open: true, began: c.now.Boot, due: c.now.Boot, pause: handOverFirst, dealt: true, given: true})
		}
	}
}

// deal decides who gets the GPUs that attempts of this run have just left.
func (c *Core) deal() {
	if c.pool == nil || len(c.hands) == 0 {
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
			c.pool.Turns.SetWish(c.wants())
			wanted = true
		}
		turn, ok := c.pool.Turns.Next(c.now.Boot, h.id, c.undealt()...)
		if h.turn, h.dealt = turn, true; !ok || turn.Own {
			continue
		}
		c.offer(h, turn)
	}
}

// offer lets another run have a GPU that an attempt of this run has left.
func (c *Core) offer(h *handOver, turn gpu.Turn) {
	h.turn, h.dealt = turn, true
	h.open, h.until = false, c.now.Boot+c.pool.Turns.Courtesy()
	c.pool.Offer(h.id, turn.Run)
	c.do(Offer{UniID: h.claim, UUID: h.id, To: turn.Run})
}

// undealt returns the GPUs that attempts of this run have left and that are nobody's turn yet.
func (c *Core) undealt() (ids []gpu.UUID) {
	for i := range c.hands {
		if h := &c.hands[i]; h.claim != "" && !h.dealt && !slices.Contains(c.excluded, h.id) {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// settleOffers ends the offers that were taken, those that were not in time, and those that
// their run no longer wants: the GPU is then dealt again, among the others.
func (c *Core) settleOffers() {
	for i := range c.hands {
		h := &c.hands[i]
		late := c.now.Boot >= h.until
		switch {
		case h.until == 0:
		case c.pool.WasTaken(h.id, h.turn):
			h.until, c.refill = 0, true
		case late || c.offersBefore(i) >= c.pool.Turns.Wants(c.now.Boot, h.turn):
			if late && !c.pool.ClaimedByOther(h.id) || c.pool.Turns.Renewed(h.turn) { // else somebody was in its way
				c.pool.Turns.Skip(c.now.Boot, h.turn)
				c.declined(h)
			}
			c.pool.Offer(h.id, "")
			c.do(Offer{UniID: h.claim, UUID: h.id, To: c.opts.Run}) // nobody else's any more
			left := c.now.Boot-h.began < handOverFor
			h.until, h.dealt, h.open = 0, !left, left
			h.due, h.pause, c.refill = c.now.Boot, handOverFirst, true
		}
	}
}

// offersBefore counts the offers to the same run before the i-th.
func (c *Core) offersBefore(i int) (n int) {
	for k := range c.hands[:i] {
		if h := &c.hands[k]; h.until > 0 && h.turn.Run == c.hands[i].turn.Run && h.turn.UID == c.hands[i].turn.UID {
			n++
		}
	}
	return n
}

// lingers reports whether a run that has nothing left to do waits for those to whom it
// offers GPUs: its offers end with it. After lookEvery they find out about free GPUs anyway.
func (c *Core) lingers() bool {
	return !c.stopping && slices.ContainsFunc(c.hands, func(h handOver) bool { return h.until > 0 && c.now.Boot-h.began < lookEvery })
}

// wants returns what this run waits for.
func (c *Core) wants() gpu.Wish {
	w := gpu.Wish{Run: c.opts.Run, UID: c.opts.UID, Since: c.since, Background: c.b.Settings.Background, Gathers: c.gathering.On, HostResources: c.live.withoutGPUs}
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
	w.Requests = c.asks()
	return w
}

// asks returns what the waiting jobs need, in their order.
func (c *Core) asks() []gpu.WishRequest {
	now := requests{room: c.pool.Room(c.now.Boot), host: c.pool.Host(), not: len(c.excluded)}
	for _, cl := range c.classes {
		if id := c.head(cl); id >= 0 && cl.impossible == "" && c.full(id) == nil && c.quota(id) == nil && (cl.gpus || c.space(id) != nil) {
			now.of = append(now.of, askedFor{cl, min(len(cl.jobs), c.pool.Size())})
		}
	}
	slices.SortFunc(now.of, func(a, b askedFor) int {
		if a.class.gpus != b.class.gpus { // devices are gathered for the first
			return map[bool]int{true: -1, false: 1}[a.class.gpus]
		}
		return int(a.class.jobs[0].rank - b.class.jobs[0].rank)
	})
	now.of = now.of[:min(len(now.of), maxAsks)]
	if was := &c.asked; slices.Equal(was.of, now.of) && was.room == now.room && was.host == now.host && was.not == now.not {
		return was.asks
	}
	for _, f := range now.of {
		if a := c.pool.WishRequest(c.now.Boot, f.class.req, f.jobs, c.excluded); a.Min == 0 || a.Room > 0 && len(a.UUIDs) > 0 {
			a.HostResources = f.class.HostResources
			now.asks = append(now.asks, a)
		}
	}
	c.asked = now
	return now.asks
}

// space returns why too few cores or too little host memory keep a ready job from starting now, or
// nil.
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

// reserved returns the cores and the memory that jobs of this run have.
func (c *Core) reserved() gpu.HostResources {
	all := c.live.reserved
	for _, m := range c.moves {
		all.Add(gpu.HostResources{CPUs: c.spec(m.job).CPUs, RAM: c.spec(m.job).Memory}, 1)
	}
	return all
}

// lack returns why what other runs hold of the host's cores and memory, or wait for and get first,
// leaves too little for one more job with a need, when this run holds own, or nil.
func (c *Core) lack(need, own gpu.HostResources) *gpu.Shortage {
	if c.pool == nil {
		return nil
	}
	return c.pool.Turns.Shortage(c.now.Boot, own, need)
}

// overcommits reports whether an attempt, which holds its part, and those of other runs need more
// cores or memory than the host has.
func (c *Core) overcommits(a *attempt) bool {
	own := c.live.reserved
	own.Add(a.grant.HostResources, -1)
	return c.lack(a.grant.HostResources, own) != nil
}

// reserve sets aside the free GPUs that are another run's turn.
func (c *Core) reserve() {
	if c.theirs, c.turnChanges = nil, 0; c.pool == nil || !c.pool.Turns.HasRivals() {
		return
	}
	c.pool.Turns.SetWish(c.wants())
	c.theirs, c.turnChanges = c.pool.Turns.Theirs(c.now.Boot)
}

// wish publishes what this run waits for, if that has changed.
func (c *Core) wish() {
	w := gpu.Wish{Run: c.opts.Run, UID: c.opts.UID, Background: c.b.Settings.Background, HostResources: c.live.withoutGPUs}
	if c.waiter.id >= 0 || c.squeezed {
		w = c.wants()
	}
	c.since = w.Since
	same := w.HostResources == c.published.HostResources && w.Gathers == c.published.Gathers && len(w.Requests) == len(c.published.Requests) && (len(w.Requests) == 0 || reflect.DeepEqual(w.Requests, c.published.Requests))
	if same {
		c.published.Requests = w.Requests // cheap to compare next time
	}
	age, due := c.now.Boot-c.publishedAt, wishSlow
	if !w.Since.Equal(c.published.Since) {
		due = wishEvery
	}
	if same && (len(w.Requests) == 0 || age < due) {
		return
	}
	if len(w.Requests) == 0 && len(c.unclaimed()) > 0 {
		return // or those who offered these GPUs might think that nobody wants them
	}
	c.published, c.publishedAt = w, c.now.Boot
	c.do(Wish{w})
}

// offeredWhy says to whom a GPU is offered that an attempt of this run has left, or "".
func (c *Core) offeredWhy(id gpu.UUID) string {
	for i := range c.hands {
		if h := &c.hands[i]; h.id == id && h.until > 0 {
			return h.turn.Why
		}
	}
	return ""
}

// A background run stops a job when a foreground wish needs its GPUs, and all of its jobs
// when its hours end. They go back to where they were, and spend no retry.

// attendEvery is how often a run of which no job waits reads all GPUs, to find out about wishes of
// which it got no notice, or about free GPUs for those who want to know.
const attendEvery = time.Minute

// giveWay stops what has to go now.
func (c *Core) giveWay() {
	if c.giveWayAt = 0; !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	why := c.closed()
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

// preempt stops an attempt that has to go, if there is a reason and it is not being
// stopped already.
func (c *Core) preempt(a *attempt, why string) {
	if why == "" || a.stop != "" || a.asked {
		return
	}
	a.cause = why
	c.do(Warn{Text: "stopping " + a.name + ": " + why + "; it runs again later"})
	c.endAttempt(a, state.WhyPreempted, false)
}

// attends reports whether all GPUs are to be read although no job waits for one: what
// others hold keeps a job from starting, or what they wish for decides whether this run's
// jobs may stay.
func (c *Core) attends() bool {
	if c.squeezed || c.tellsFree() && c.now.Boot >= c.readings.all.at+attendEvery {
		return true
	}
	if !c.b.Settings.Background || c.live.onGPUs == 0 {
		return false
	}
	return c.pool.Turns.ForegroundWaits() || c.now.Boot >= c.readings.all.at+attendEvery
}

// tellsFree reports whether anybody is to get news of free GPUs.
func (c *Core) tellsFree() bool {
	return c.begun && slices.ContainsFunc(c.b.Settings.Notify, func(n jobspec.Notify) bool { return slices.Contains(n.On, "gpus_free") })
}

// nextCall calls by with the times at which giveWay may have something to do.
func (c *Core) nextCall(by func(time.Duration)) {
	if !c.b.Settings.Background || len(c.live.all) == 0 {
		return
	}
	by(c.giveWayAt)
	if c.live.onGPUs > 0 {
		by(c.readings.all.at + attendEvery)
	}
	if c.b.Settings.Hours.String() != "" || c.pool != nil && len(c.pool.Host().Hours) > 0 {
		by(c.now.Boot + time.Minute - c.now.Wall.Sub(c.now.Wall.Truncate(time.Minute))) // hours end at full minutes
	}
}
