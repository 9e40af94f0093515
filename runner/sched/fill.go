package sched

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/source"
	"gpurun/state"
	"gpurun/state/schema"
)

// maxPreparing bounds the jobs that the edge prepares at a time. Jobs that need no GPU could
// otherwise swamp it by the million.
const maxPreparing = 64

// A firstInLine is the first ready job that lacked some resource in the last fill.
type firstInLine struct {
	id    int32                   // -1 when there is none
	began map[int32]time.Duration // by job: when it became first; jobs that have started are removed
}

func noneInLine() firstInLine { return firstInLine{-1, map[int32]time.Duration{}} }

// wait makes a job the first in line. Its waiting time keeps counting while another job, such as
// the next one of a queue, is briefly first instead.
func (h *firstInLine) wait(id int32, now time.Duration) {
	h.id = id
	if _, before := h.began[id]; !before {
		h.began[id] = now
	}
}

// await records that a job needs more than is free of a pool or, if resource is "", of cores or
// host memory.
func (c *Core) await(resource string, id int32) {
	if c.lines[resource] == nil {
		h := noneInLine()
		c.lines[resource] = &h
	}
	if h := c.lines[resource]; h.id < 0 {
		h.wait(id, c.now.Boot)
	}
}

// keptFor returns the other job that a resource is kept for because that job's patience is over, or
// -1.
func (c *Core) keptFor(resource string, id int32) int32 {
	if h := c.lines[resource]; h != nil && h.id != id && c.patienceOver(h) {
		return h.id
	}
	return -1
}

// waiter is the first job in line for a GPU.
type waiter struct {
	firstInLine
	kept    []gpu.UUID    // GPUs that smaller jobs must leave to the waiter and to keptFor
	keptFor int32         // the first in line or, if that is still patient, a job behind it that is not
	free    int           // how many GPUs are already free for keptFor
	alone   time.Duration // since when it has waited while this run held no GPU; 0 if the run holds one
}

// patienceOver reports whether other jobs must leave a resource to the first in line.
func (c *Core) patienceOver(h *firstInLine) bool { return h.id >= 0 && c.overtaken(h, h.id) }

// overtaken reports whether the patience of a job that has been first in line is over.
func (c *Core) overtaken(h *firstInLine, id int32) bool {
	since, waits := h.began[id]
	return waits && c.now.Boot-since >= c.b.Settings.Patience
}

// fill starts every ready job that there is room for, in order. The first job of each class of
// equal needs represents the class.
func (c *Core) fill() {
	if !c.refill || !c.begun {
		return
	}
	c.refill = false
	w := &c.waiter
	w.id, w.kept, w.keptFor, w.free, c.squeezed, c.failed = -1, nil, -1, 0, false, c.failed[:0]
	c.gathering.IDs = nil
	defer c.gather()
	for _, h := range c.lines {
		h.id = -1
	}
	if c.sealed() {
		c.moves = nil
		return
	}
	c.reserve()
	c.resume()
	c.holdExceeding()
	var order priorityQueue[*class]
	for _, cl := range c.classes {
		if c.firstOf(cl) >= 0 {
			order = append(order, cl)
		}
	}
	heap.Init(&order)
	for len(order) > 0 && c.slots() == nil && c.counts[preparing] < maxPreparing {
		cl := order[0]
		id := c.firstOf(cl)
		started := false
		if c.exceedsAllocation(id) != nil {
			c.refill = true // the job before it in its class just started; the next fill holds this one
		} else if c.full(id) != nil {
			c.await(c.spec(id).Pool.Name, id)
		} else if c.space(id) == nil {
			started = c.startJob(id)
		} else {
			l := c.lack(cl.HostResources, c.reserved())
			c.squeezed = c.squeezed || l != nil
			if l == nil || !l.Memory || cl.RAM <= l.Free.RAM+c.reserved().RAM {
				c.await("", id)
			}
		}
		if started && c.firstOf(cl) >= 0 {
			heap.Fix(&order, 0)
		} else {
			heap.Pop(&order)
		}
	}
}

// startJob grants a job its request and prepares its start. It returns false if no GPU is free for
// it.
func (c *Core) startJob(id int32) bool {
	cl := c.jobs[id].class
	// If an easier request has already found no GPU, there is no need to look. This keeps a batch
	// cheap even if every job requests a different amount of memory.
	vain := func(easier gpu.Request) bool { return cl.req.AtLeast(easier) }
	if cl.gpus && slices.ContainsFunc(c.failed[:min(len(c.failed), 4)], vain) {
		c.keepBehind(id)
		return false
	}
	g, ok := c.pick(id)
	if ok && c.current(g) {
		heap.Pop(&cl.jobs)
		c.grant(id, g)
		return true
	}
	if c.gaveUp {
		return false
	}
	c.failed = append(c.failed, cl.req)
	if c.waiter.id >= 0 {
		c.keepBehind(id)
	} else {
		c.waiter.wait(id, c.now.Boot)
		if c.waiter.keptFor = id; c.patienceOver(&c.waiter.firstInLine) {
			c.keep(id)
		}
		c.pool.Turns.SetWish(c.currentWish())
		c.gathering.Gathering = c.pool.Turns.Gather(c.now.Boot, cl.req, c.unavailable(id))
		if ok { // keep the GPUs found until they have been read
			c.waiter.kept = append(c.waiter.kept, g.UUIDs...)
			c.gathering.IDs = slices.DeleteFunc(c.gathering.IDs, func(id gpu.UUID) bool { return !c.gathering.has(id) })
		}
	}
	return false
}

// current reports whether the readings of a grant's GPUs are current. If not, it requests new ones.
func (c *Core) current(g gpu.Grant) bool {
	if len(g.UUIDs) == 0 {
		return true
	}
	old := c.pool.MayHaveNewcomers(c.now.Boot, g.UUIDs)
	c.readings.refresh(c.now.Boot, old)
	return len(old) == 0
}

// pick finds GPUs for a job, if it needs any.
func (c *Core) pick(id int32) (gpu.Grant, bool) {
	cl := c.jobs[id].class
	if !cl.gpus || c.gaveUp {
		return gpu.Grant{}, !cl.gpus
	}
	aside := c.unavailable(id)
	if avoid := c.breaker.avoided(c.template(id), c.b.Settings.Breaker); len(avoid) > 0 {
		if g, ok := c.pool.Find(c.now.Boot, cl.req, slices.Concat(aside, avoid)); ok {
			return g, true
		}
	}
	g, ok := c.pool.Find(c.now.Boot, cl.req, aside)
	if req := cl.req; !ok && req.Avoid != "" && !c.waitsForOtherGPUs(id, req, aside) {
		for !ok && req.Avoid != "" { // as few of these GPUs as possible
			req.Avoid = gpu.NamesOf(req.Avoid.List()[1:])
			g, ok = c.pool.Find(c.now.Boot, req, aside)
		}
	}
	return g, ok
}

// waitsForOtherGPUs reports whether a job waits for GPUs other than those that it avoids. Enough
// such GPUs must be free or held by this run, and the job's patience must not be over. After a
// death with the signature of a device fault, another run may hold them, too, and the job waits
// regardless while another job of the run is left.
func (c *Core) waitsForOtherGPUs(id int32, req gpu.Request, aside []gpu.UUID) bool {
	patient := !c.overtaken(&c.waiter.firstInLine, id)
	if c.health.signed(id) {
		others := func(cl *class) bool { return c.firstOf(cl) >= 0 && cl.req.Avoid == "" }
		return len(c.live.all)+len(c.moves)+c.counts[waiting] > 0 || slices.ContainsFunc(c.classes, others) ||
			patient && c.canRunElsewhere(id, c.health.jobs[id].on)
	}
	free, ours := c.pool.Candidates(c.now.Boot, req, aside)
	return patient && len(free)+len(ours) >= req.Min
}

// canRunElsewhere reports whether a job could ever run on GPUs other than these.
func (c *Core) canRunElsewhere(id int32, ids []gpu.UUID) bool {
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

// keepBehind keeps GPUs for a job behind the first in line, if the job's patience is over and that
// of the first is not. Otherwise, smaller jobs would take them while, for example, the next job of
// a queue waits for the GPU that the one before it has just left.
func (c *Core) keepBehind(id int32) {
	if w := &c.waiter; w.keptFor == w.id && c.overtaken(&w.firstInLine, id) && !c.patienceOver(&w.firstInLine) {
		c.keep(id)
	}
}

// keep keeps all GPUs that a job could use, if they would suffice. If this run may not hold enough
// additional GPUs for the job, every GPU that another job takes delays the job, so keep keeps all
// GPUs of the pool.
func (c *Core) keep(id int32) {
	w, req, aside := &c.waiter, c.jobs[id].class.req, c.unavailable(id)
	suitable := c.pool.SuitableAfter(c.now.Boot, req, aside)
	if len(suitable) == 0 {
		return
	}
	if !req.Share && c.pool.Room(c.now.Boot) < req.Min {
		suitable = nil
		for _, d := range c.pool.Devices() {
			suitable = append(suitable, d.UUID)
		}
	}
	free, _ := c.pool.Candidates(c.now.Boot, req, aside)
	w.kept, w.keptFor, w.free = slices.Concat(w.kept, suitable), id, len(free)
}

// grant reserves a job's grant and prepares its start.
func (c *Core) grant(id int32, g gpu.Grant) {
	cl := c.jobs[id].class
	prepare := Prepare{Job: int(id), Attempt: int(c.jobs[id].attempt + 1)}
	if cl.gpus {
		prepare.Note = c.pool.Note(c.now.Boot, cl.req, g)
	}
	prepare.Timeout, _ = c.timeout(id)
	g.Since, g.Background = c.now.Wall, c.b.Settings.Background
	lasts := prepare.Timeout
	if lasts == 0 {
		_, lasts = c.seedGroup(id).Took()
	}
	if g.HostResources = cl.HostResources; lasts > 0 {
		g.Ends = c.now.Wall.Add(lasts)
	}
	if c.opts.Elsewhere && cl.req.Max > 0 {
		g.Memory = cl.req.Memory // as requested from the engine
	}
	prepare.Grant = g
	if cl.gpus && c.spec(id).Affinity {
		prepare.Cores = c.pool.Cores(g)
	}
	delete(c.waiter.began, id)
	for _, h := range c.lines {
		delete(h.began, id)
	}
	c.set(id, preparing)
	c.take(&attempt{
		job: id, file: c.file(id), n: c.jobs[id].attempt + 1, grant: g, pool: cl.pool, asks: c.requestedGPUs(cl),
		start: c.now.Wall, name: c.name(id), key: c.b.Jobs[id].Key.String(),
	})
	c.do(prepare)
}

// exceedsAllocation returns why a job does not start: similar jobs took longer than the time left
// in the surrounding cluster job. It returns nil if the job may start or there is no estimate.
func (c *Core) exceedsAllocation(id int32) *schema.Wait {
	if c.opts.Ends.IsZero() {
		return nil
	}
	takes, _ := c.seedGroup(id).Took()
	if t, _ := c.timeout(id); t > 0 {
		takes = min(takes, t)
	}
	if takes == 0 || !c.now.Wall.Add(takes).After(c.opts.Ends) {
		return nil
	}
	w := waits(schema.WaitAllocation, "not started: similar jobs take %s, and %s ends at %s", source.FormatDuration(takes.Round(time.Second)), c.opts.Within, gpu.Clock(c.opts.Ends, c.now.Wall))
	w.Until = schema.Time(c.opts.Ends)
	return w
}

// holdExceeding holds the next jobs that now exceed the allocation.
func (c *Core) holdExceeding() {
	for _, cl := range c.classes {
		for id := c.firstOf(cl); id >= 0 && c.exceedsAllocation(id) != nil; id = c.firstOf(cl) {
			c.holdJob(id)
		}
	}
}

// leaves reports whether a job was held for exceeding the allocation.
func (c *Core) leaves() bool {
	return slices.ContainsFunc(c.graph.order, func(id int32) bool { return c.jobs[id].phase == held && c.exceedsAllocation(id) != nil })
}

// warnExceeding warns, at the end of the run, about the jobs that exceed the allocation.
func (c *Core) warnExceeding() {
	n, text := 0, ""
	for id, j := range c.each {
		if w := c.exceedsAllocation(id); j.phase == held && w != nil {
			if n++; n == 1 {
				text = c.name(id) + " was " + w.Text
			}
		}
	}
	if n > 1 {
		text += fmt.Sprintf("; the same applies to %s", state.Count(n-1, "other job"))
	}
	if n > 0 {
		c.do(Warn{Text: text})
		// The run must not be reported as one with failed jobs.
		c.draining = cmp.Or(c.draining, c.opts.Within+" ends at "+gpu.Clock(c.opts.Ends, c.now.Wall))
	}
}

// timeout returns how long a job may run, 0 for no limit, and the host rule if that sets the limit.
func (c *Core) timeout(id int32) (t time.Duration, limitedBy string) {
	t = c.spec(id).Timeout
	if c.pool == nil || c.spec(id).Request.Max == 0 {
		return t, ""
	}
	if h := c.pool.Host(); h.MaxTimeout > 0 && (t == 0 || t > h.MaxTimeout) {
		return h.MaxTimeout, h.TimeLimit()
	}
	return t, ""
}

// slots returns why no job may start now, or nil.
func (c *Core) slots() *schema.Wait {
	if c.paused {
		return waits(schema.WaitPaused, "%s", pausedAll)
	}
	n := len(c.live.all) + len(c.moves)
	if most := c.b.Settings.MaxConcurrent; most > 0 && n >= most && !c.opts.Queues {
		noun := "jobs are"
		if n == 1 {
			noun = "job is"
		}
		return waits(schema.WaitMaxConcurrent, "%d %s running, and max_concurrent is %d", n, noun, most)
	}
	if most := c.opts.MaxOpen; most > 0 && n >= most {
		return waits(schema.WaitMaxConcurrent, "%d jobs are submitted, and cluster.max_submitted is %d", n, most)
	}
	if why := c.outsideHours(); why != "" {
		w := waits(schema.WaitHours, "%s", why)
		w.Until = schema.Time(c.b.Settings.Hours.Opens(c.localTime()))
		return w
	}
	return nil
}

// outsideHours returns why this run's hours allow no start now, or "".
func (c *Core) outsideHours() string {
	hours := c.b.Settings.Hours
	why := hours.Closed(c.localTime())
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s (hours: %s)", why, hours)
}

// Opens returns when the run's hours, or the host's for some GPU, next open. It returns 0 if they are
// open now.
func (c *Core) Opens(now Now) (at time.Duration) {
	if c.pool != nil {
		at = c.pool.Opens(now.Boot)
	}
	if wait := c.b.Settings.Hours.Until(now.Wall.In(c.opts.Zone)); wait > 0 && (at == 0 || now.Boot+wait < at) {
		at = now.Boot + wait
	}
	return at
}

// localTime returns the time of day in the user's time zone.
func (c *Core) localTime() time.Time { return c.now.Wall.In(c.opts.Zone) }

// unavailable returns the GPUs that a job may not take now even if the pool would grant them.
func (c *Core) unavailable(id int32) (ids []gpu.UUID) {
	for _, d := range c.pool.Devices() {
		if _, is := c.withheld(id, d.UUID, true); is {
			ids = append(ids, d.UUID)
		}
	}
	return ids
}

// withheld reports whether this run keeps a job off a GPU now, and why. free means that the pool
// would grant the GPU. If not, the pool's reason takes precedence over another run's turn and over
// other jobs of this run.
func (c *Core) withheld(id int32, uuid gpu.UUID, free bool) (why noGPU, is bool) {
	w := &c.waiter
	kept := func(job int32, more string) (noGPU, bool) {
		return noGPU{gpu.Kept, schema.WaitKept, "", c.name(job), "kept for " + c.name(job) + more}, true
	}
	offer := slices.IndexFunc(c.hands, func(h handOver) bool { return h.id == uuid && h.until > 0 })
	to := slices.IndexFunc(c.moves, func(m move) bool { return slices.Contains(m.ids, uuid) })
	switch {
	case slices.Contains(c.excluded, uuid):
		return noGPU{code: gpu.NotManaged, wait: schema.WaitGPUs, text: "freed by stop --gpu"}, true
	case offer >= 0:
		return noGPU{code: gpu.Kept, wait: schema.WaitCourtesy, text: c.hands[offer].turn.Why}, true
	case free && slices.Contains(c.theirs, uuid):
		return noGPU{code: gpu.Kept, wait: schema.WaitCourtesy, text: "another user's turn"}, true
	case to >= 0:
		return kept(c.moves[to].job, ", which is being resized")
	case free && id != w.id && slices.Contains(c.gathering.IDs, uuid):
		return kept(w.id, "")
	case free && id != w.id && id != w.keptFor && slices.Contains(w.kept, uuid): // keptFor may be behind the first in line
		return kept(w.keptFor, "")
	case slices.Contains(c.health.resting, uuid):
		return noGPU{code: gpu.Quarantined, wait: schema.WaitGPUs, text: "several jobs in a row died on it; unused until one of them has run on another GPU"}, true
	case c.cooling[uuid] > c.now.Boot:
		return noGPU{code: gpu.Claimed, wait: schema.WaitGPUs, text: cmp.Or(c.refusal, "another run just claimed it")}, true
	}
	return noGPU{}, false
}

// wants describes what a request asks for, e.g. "needs 2 GPUs with 40 GiB each".
func wants(r gpu.Request) string {
	switch {
	case r.Part && r.Min > 1:
		return fmt.Sprintf("needs 1/%d of each of %d GPUs", r.Slots, r.Min)
	case r.Part:
		return fmt.Sprintf("needs 1/%d of a GPU", r.Slots)
	case r.Min > 1:
		return fmt.Sprintf("needs %d GPUs with %s each", r.Min, r.Memory.Asked())
	}
	return "needs " + r.Memory.Asked()
}

// maxReasons bounds the reasons that are listed one by one.
const maxReasons = 4

// DescribeVerdicts describes a request, and says on how many runs its memory is based. For each GPU
// that could ever serve the request, it says whether the GPU is free, or why it is not.
func DescribeVerdicts(r gpu.Request, runs int, verdicts []gpu.Verdict) string {
	words := wants(r)
	if runs > 0 {
		words = fmt.Sprintf("%s, based on %d runs", strings.Replace(words, r.Memory.Asked(), r.Memory.Round(), 1), runs)
	}
	return words + "; " + groupByReason(verdicts, func(v gpu.Verdict) string {
		switch {
		case !v.OK:
			return v.Reason
		case v.Note != "":
			return "free now, " + v.Note
		}
		return "free now"
	})
}

// groupByReason uses say to describe each GPU that could ever serve the request, and groups GPUs
// with the same description. An empty description means free.
func groupByReason(verdicts []gpu.Verdict, say func(gpu.Verdict) string) string {
	var reasons lackList
	var words []string
	free, more := 0, 0
	for _, v := range verdicts {
		if v.Never {
			continue
		}
		if reason := say(v); reason != "" {
			reasons.add(reason, v.Index)
		} else {
			free++
		}
	}
	if free > 0 {
		words = append(words, fmt.Sprintf("%d free now", free))
	}
	for i, l := range reasons {
		if i < maxReasons {
			words = append(words, gpuNumbers(l.gpus)+": "+l.text)
		} else {
			more += len(l.gpus)
		}
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(words, "; "), "no suitable GPU here")
}

// gpuNumbers formats indices as "GPU 3", "GPU 0, 2" or "GPU 0-2, 5".
func gpuNumbers(ids []int) string {
	var s []string
	for i := 0; i < len(ids); {
		k := i + 1
		for k < len(ids) && ids[k] == ids[k-1]+1 {
			k++
		}
		if k-i > 2 {
			s = append(s, fmt.Sprintf("%d-%d", ids[i], ids[k-1]))
		} else {
			s, k = append(s, fmt.Sprint(ids[i])), i+1
		}
		i = k
	}
	return "GPU " + strings.Join(s, ", ")
}
