package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// on processes a reading. A quick one only updates GPUs in hand-over and GPUs that do not answer:
// on a GPU in use, the owner of the memory is unknown without a process list.
func (ev Observed) on(c *Core) {
	if c.pool == nil {
		return
	}
	c.see(ev.Observation)
	c.quarantineFromReading(ev.Observation, ev.Quick)
	c.health.unpublished(&ev.Observation)
	quick := ev.Quick && ev.Err == ""
	if quick {
		ev.Readings = slices.DeleteFunc(slices.Clone(ev.Readings), func(r gpu.Reading) bool { return r.Err == "" && !c.inHandOver(r.UUID) })
		if len(ev.Readings) == 0 {
			return
		}
	}
	c.pool.Observe(ev.Observation)
	if ev.Claims != nil {
		c.heard = ev.Claims
	}
	c.refill = true
	c.receiveOffers()
	c.scheduleHandOverReading(ev.Observation, quick)
	if !ev.Quick && (ev.Err != "" || len(ev.Readings) >= len(c.pool.Devices())) {
		if c.readings.answered(c.now.Boot, ev.Err, c.b.Settings.Poll); ev.Err == "" {
			c.live.strayLooked(c.now.Boot)
		}
	}
}

// reading returns an observation's reading of a device, or nil.
func reading(s gpu.Observation, id gpu.UUID) *gpu.Reading {
	for i := range s.Readings {
		if s.Readings[i].UUID == id {
			return &s.Readings[i]
		}
	}
	return nil
}

func (c *Core) read() {
	if c.pool == nil || c.sealed() && len(c.live.all) == 0 {
		return
	}
	handingOver := (c.waiter.id >= 0 || len(c.moves) > 0) && c.readHandOvers()
	for _, r := range c.readings.due(c.now.Boot, &c.live, c.wantsReadings(), handingOver, c.b.Settings.Poll) {
		c.do(r)
	}
}

// wantsReadings reports whether the run needs a reading of all GPUs: a job waits for a GPU, or for
// resources that other runs hold; a job could grow; a foreground run may preempt this run's jobs;
// or a regular reading is due (see attends).
func (c *Core) wantsReadings() bool {
	background := c.b.Settings.Background && c.live.onGPUs > 0
	return c.waiter.id >= 0 || c.growing || c.squeezed || background && c.pool.Turns.ForegroundWaits() ||
		c.attends() && c.now.Boot >= c.readings.all.at+attendEvery
}

// attends reports whether to read all GPUs every attendEvery in any case, because the run might have missed
// a wish of a foreground run or must notify its user of free GPUs.
func (c *Core) attends() bool {
	free := func(n jobspec.Notify) bool { return slices.Contains(n.On, "gpus_free") }
	notifies := c.begun && c.pool != nil && slices.ContainsFunc(c.b.Settings.Notify, free)
	return notifies || c.b.Settings.Background && c.live.onGPUs > 0
}

// nextRead calls by with the times at which readings are due.
func (c *Core) nextRead(by func(time.Duration)) {
	wanted := c.wantsReadings()
	c.readings.nextDue(&c.live, wanted, by)
	if !wanted && c.attends() {
		by(c.readings.all.at + attendEvery)
	}
	c.nextHandOver(by)
}

// inUse returns the GPUs that started attempts of this run hold.
func (l *attempts) inUse() (ids []gpu.UUID) {
	for a := range l.started {
		for _, id := range a.grant.UUIDs {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// usage is an attempt's GPU use, according to the readings.
type usage struct {
	gpuUses  []gpuUse      // parallel to the grant's GPUs; nil before the first reading
	peak     gpu.Bytes     // the most on one GPU
	readings int           // readings that showed what it uses
	hogs     bool          // it used over hogShare of a GPU on which it was alone
	lookAt   time.Duration // when to look for it on other GPUs next; 0 for never
	looks    int           // number of such looks so far
	strayed  []gpu.UUID    // other GPUs on which it was seen
	stray    string        // the message about the latest of them
	came     []newcomer    // other processes that came to its GPUs while it ran
	company  []neighbors   // parallel to the grant's GPUs: other processes there
	fault    fault         // the party at fault for its end
}

// A gpuUse is the memory use of an attempt on one of its GPUs.
type gpuUse struct {
	used gpu.Bytes // as last seen; -1 if unknown
	peak gpu.Bytes // the most that was seen
	low  gpu.Bytes // least free memory in any list; -1 before the first
}

// see records the live attempts' GPU use, and other processes on their GPUs.
func (c *Core) see(seen gpu.Observation) {
	c.readings.used.out = false
	if seen.Err != "" {
		return
	}
	for a := range c.live.started {
		counts := false
		for i, id := range a.grant.UUIDs {
			if r := reading(seen, id); r != nil && r.Err == "" {
				told, drop := a.recordUse(i, r)
				if counts = counts || told; drop {
					c.readings.list(id)
				}
				c.sharing.pidsTell = c.sharing.pidsTell || r.Listed && told
				a.watch.Lit(r, c.now.Boot)
			}
		}
		if counts {
			a.readings++
		}
	}
	allowed := func(job int32) bool { return slices.Contains(c.spec(job).Allow, AllowStray) }
	for i := range seen.Readings {
		r := &seen.Readings[i]
		if !r.Listed || r.Err != "" {
			continue
		}
		for _, s := range c.sharing.strays(r, &c.live, c.pool, allowed) {
			if c.do(Warn{Text: s.warning}); s.end {
				c.endAttempt(s.attempt, state.WhyStray, false)
			}
		}
		for _, warning := range c.sharing.newcomers(r, &c.live, c.pool) {
			c.do(Warn{Text: warning})
		}
	}
}

// recordUse records how much memory an attempt uses on its i-th GPU, and reports whether the
// reading counts: it is a list with the attempt's processes, or a quick reading that shows no less
// free memory than such a list. drop means that free memory fell below that of every list so far: a
// new list must show whether the job or a neighbor uses the memory.
func (a *attempt) recordUse(i int, r *gpu.Reading) (counts, drop bool) {
	for len(a.gpuUses) < len(a.grant.UUIDs) {
		a.gpuUses = append(a.gpuUses, gpuUse{used: -1, low: -1})
	}
	s := &a.gpuUses[i]
	if !r.Listed {
		drop = r.Free >= 0 && (s.low < 0 || r.Free+listStep <= s.low)
		return !drop && s.used > 0, drop
	}
	if r.Free >= 0 && (s.low < 0 || r.Free < s.low) {
		s.low = r.Free
	}
	s.used = 0
	alone := true
	for _, p := range r.Processes {
		switch {
		case p.Attempt != a.uniID:
			alone = false
		case p.Memory < 0 || s.used < 0:
			s.used = -1
		default:
			s.used += p.Memory
		}
	}
	s.peak = max(s.peak, s.used)
	a.peak = max(a.peak, s.used)
	if i < len(a.company) {
		a.company[i].add(r, a.uniID, s.used)
	}
	a.hogs = a.hogs || alone && r.Total > 0 && s.used > r.Total/100*hogShare
	return s.used > 0, false
}

// metered records the engine's own readings of GPUs that it chose.
func (a *attempt) metered(e Ended) {
	if len(e.Peaks) == 0 {
		return
	}
	a.gpuUses, a.readings = nil, e.Readings
	for _, p := range e.Peaks {
		a.gpuUses = append(a.gpuUses, gpuUse{used: -1, low: -1, peak: p.Used})
		a.peak = max(a.peak, p.Used)
		a.hogs = a.hogs || p.Total > 0 && p.Used > p.Total/100*hogShare
	}
}

// reportEvery is how often to read the metric of a job with prune.
const reportEvery = time.Second

// pace returns how often to sample the progress of an attempt; 0 for never.
func (c *Core) pace(a *attempt) time.Duration {
	if a.job < 0 || a.uniID == "" || a.asked || a.queued || a.suspended || a.stop != "" {
		return 0
	}
	every, often := stall.Pace(c.spec(a.job).Stall), reportEvery
	if c.opts.Queues {
		often = 10 * reportEvery
	}
	if c.ruleOf(a.job).Metric != "" && (every == 0 || every > often) {
		return often
	}
	return every
}

func (c *Core) sample() {
	if ids := c.sampling.due(c.now.Boot, &c.live, c.pace); len(ids) > 0 {
		c.do(SampleProgress{UniIDs: ids})
	}
}

// on records when attempts stall and resume, and ends stalled ones if their jobs ask for it.
func (ev ProgressSampled) on(c *Core) {
	c.sampling.out.out = false
	for _, did := range ev.Work {
		a := c.live.byID[did.UniID]
		if a == nil {
			continue
		}
		c.recordReports(a, did.Points, did.Rule)
		if c.pace(a) == 0 {
			continue
		}
		rule, said := c.spec(a.job).Stall, a.watch.LastReport()
		if (a.watch.Look(rule, did, len(a.grant.UUIDs) > 0, c.now.Boot) == "") == (said == "") {
			continue
		}
		f := a.fact(state.KindResumed, c.now)
		if f.Reason = a.watch.LastReport(); f.Reason != "" {
			f.Kind = state.KindStalled
		}
		c.record(a.file, a.job, f)
		if rule.Kill && f.Kind == state.KindStalled {
			c.endAttempt(a, state.WhyStalled, false)
		}
	}
}
