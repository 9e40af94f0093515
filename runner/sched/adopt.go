package sched

import (
	"maps"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// on asks the engine about every attempt that the history left open. Their resources stay reserved,
// and nothing starts until the engine has answered for all of them.
func (Began) on(c *Core) {
	if !c.judged {
		c.judge()
	}
	open := c.h.Attempts()
	attempts := make([]*attempt, len(open))
	for i, o := range open {
		attempts[i] = adopted(o)
	}
	jobs := c.jobsOf(attempts)
	for i, a := range attempts {
		a.queued = c.opts.Queues && open[i].Running == nil
		if ids := jobs[a.byKey()]; len(ids) > 0 {
			c.assign(a, ids[0])
		}
		c.follow(a, jobs)
		c.take(a)
		c.lookFor(a)
		c.do(Adopt{Job: int(a.job), Attempt: *open[i]})
	}
	if len(open) == 0 {
		c.begin()
	} else {
		c.initPruning()
	}
}

// assign makes an adopted attempt an attempt of the given job.
func (c *Core) assign(a *attempt, id int32) {
	spec, j := c.spec(id), &c.jobs[id]
	a.job = id
	a.grant.Background, a.grant.CPUs, a.grant.RAM = c.b.Settings.Background, spec.CPUs, spec.Memory
	a.pool, a.grant.Share, a.grant.Slots = spec.Pool, spec.Request.Share, spec.Request.Slots
	if c.opts.Elsewhere {
		a.asks = max(spec.Request.Min, a.gpus())
	}
	j.attempt = max(j.attempt, a.n)
	j.failures = max(j.failures, a.n-1-a.free)
}

// follow makes other jobs wait for an attempt if they now have the attempt's name or write to
// the same files: the attempt's own job was renamed, or its command was changed.
func (c *Core) follow(a *attempt, jobs map[place][]int32) {
	a.followers = nil
	for _, at := range c.placesOf(a) {
		for _, id := range jobs[at] {
			if id != a.job && !slices.Contains(a.followers, id) {
				a.followers = append(a.followers, id)
			}
		}
	}
}

// placesOf returns the places whose jobs must wait for an attempt: its names and its files.
func (c *Core) placesOf(a *attempt) []place {
	places, paths := []place{a.byName()}, []string{a.log}
	if a.job >= 0 && c.jobs[a.job].gone {
		places = append(places, c.nameOf(a.job))
		paths = append(paths, c.b.Writes(&c.b.Jobs[a.job])...)
	}
	for _, path := range paths {
		if jobspec.IsFile(path) {
			places = append(places, place{path: path})
		}
	}
	return places
}

// adopted rebuilds an open attempt from its recorded facts.
func adopted(o *state.Attempt) *attempt {
	s := &o.Start
	a := &attempt{
		job: -1, file: o.Ledger, uniID: s.UniID, n: int32(s.Attempt),
		grant: s.Grant(), queue: s.Queue,
		name: s.Job, key: s.Key, log: s.Log, start: s.Time,
		origin:   origin{adopted: true, asked: true, free: int32(s.Free)},
		stopping: stopping{stop: o.Stop, cause: o.StopReason, prior: o.Stop != "" && o.Stop != state.WhyTimeout && o.Stop != state.WhyStalled && o.Stop != state.WhyResize},
	}
	for name, n := range s.Pool {
		a.pool = jobspec.PoolUse{Name: name, N: n}
	}
	if a.jobID = o.JobID; s.Engine != "" {
		a.submitted = s.Time
	}
	if o.Running != nil {
		a.pid = o.Running.PID
		if o.Running.Host != "" {
			a.start, a.host, a.grant = o.Running.Time, o.Running.Host, o.Running.Grant()
		}
	}
	return a
}

// A place is a job's key or name in one file, because several files may have identical jobs, or the
// path of a file that it writes.
type place struct {
	file            int
	key, name, path string
}

func (a *attempt) byKey() place  { return place{file: a.file, key: a.key} }
func (a *attempt) byName() place { return place{file: a.file, name: a.name} }

func (c *Core) keyOf(id int32) place  { return place{file: c.file(id), key: c.b.Jobs[id].Key.String()} }
func (c *Core) nameOf(id int32) place { return place{file: c.file(id), name: c.name(id)} }

// jobsOf maps the places of attempts to the jobs that now have these places.
func (c *Core) jobsOf(attempts []*attempt) map[place][]int32 {
	jobs := map[place][]int32{}
	for _, a := range attempts {
		jobs[a.byKey()] = nil
		for _, at := range c.placesOf(a) {
			jobs[at] = nil
		}
	}
	if len(attempts) == 0 {
		return jobs
	}
	add := func(at place, id int32) {
		if ids, wanted := jobs[at]; wanted {
			jobs[at] = append(ids, id)
		}
	}
	for id, j := range c.each {
		if j.gone {
			continue
		}
		add(c.keyOf(id), id)
		add(c.nameOf(id), id)
		if j.phase.over() {
			continue
		}
		for _, path := range c.b.Writes(&c.b.Jobs[id]) {
			add(place{path: path}, id)
		}
	}
	return jobs
}

// answered records that the engine has reported on an attempt. After the last report, it judges all
// jobs again and begins the run.
func (c *Core) answered(a *attempt) {
	a.asked = false
	if !c.begun && !slices.ContainsFunc(c.live.all, func(a *attempt) bool { return a.asked }) {
		c.judge()
		c.begin()
	}
}

// begin starts scheduling the jobs that should run.
func (c *Core) begin() {
	c.begun, c.refill = true, true
	c.initPruning()
	c.remember()
	c.ended = c.ended[:0]
	for id := range c.each {
		c.place(id)
	}
	for id, j := range c.each {
		j.unmet, j.bad = c.needed(id)
	}
	if c.counts[pending] > 0 {
		c.readEstimates()
		if c.b.Settings.Order == jobspec.LongestFirst { // New ranked the jobs without estimates
			c.rank()
		}
	}
	for id := range c.each {
		c.consider(id)
	}
}

// place puts a job in its phase at the beginning of the run.
func (c *Core) place(id int32) {
	j := &c.jobs[id]
	switch {
	case j.phase == unselected || j.phase.over():
	case j.own > 0:
		c.set(id, running)
	case j.quit:
		c.set(id, cancelled)
	default:
		c.set(id, j.judged())
	}
	if j.own == 0 {
		j.attempt, j.failures = 0, 0
	}
}

// Rereading reports that a reload of the files has begun or ended. The run does not end during a
// reload, since jobs may join.
type Rereading struct{ On bool }

func (ev Rereading) on(c *Core) { c.rereading = ev.On }

// Reloaded brings the batch from the reloaded files. The jobs of the run keep their IDs and states;
// see jobspec.Batch.Continue. New jobs join and removed jobs leave. Removed jobs that are running
// leave once they have ended.
type Reloaded struct {
	Batch    *jobspec.Batch
	At       []int32 // by job: its place in the files; -1 for jobs that are gone
	Selected []bool  // by job; nil for all
	Forced   []bool
	Evidence map[int]Evidence // evidence for jobs that are new to the run or Rejudged
	Rules    gpu.Rules
}

// Rejudged holds the phases in which a reload judges a job again, on new evidence. Such a job has
// not ended in this run, or has left it.
var Rejudged = []state.Phase{"", state.UpToDate, state.NotNeeded, state.Blocked, state.Pruned}

func (ev Reloaded) on(c *Core) {
	c.rereading = false
	for _, a := range c.live.all {
		if a.job >= 0 {
			was := c.pointsRule(a.job)
			if m := ev.Batch.Jobs[a.job].PruneMetric(); m == nil || m.Rule != was {
				a.heard = nil // its log is read again
			}
		}
	}
	c.b, c.at, c.opts.Selected, c.opts.Forced = ev.Batch, ev.At, ev.Selected, ev.Forced
	if c.pool != nil {
		c.pool.Rule(ev.Rules)
	}
	c.jobs = append(c.jobs, make([]job, len(c.b.Jobs)-len(c.jobs))...)
	c.usage.groups = nil
	c.graph = newGraph(c.b)
	c.fillQueues()
	c.remember()
	again, paused := c.updateMembership()
	maps.DeleteFunc(c.evidence, func(id int, _ Evidence) bool { return again[id] })
	maps.Copy(c.evidence, ev.Evidence)
	c.judgeAgain(again)
	c.rerunAfterNeeds()
	c.pauseAgain(paused)
	c.matchAttempts()
	c.initPruning()
	c.endMoves()
	c.sort()
	c.recount()
}

// inOrder returns all jobs in the order of the files, removed ones first.
func (c *Core) inOrder() []int32 {
	ids := make([]int32, len(c.jobs))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortFunc(ids, c.byPlace)
	return ids
}

// updateMembership adds new jobs and removes those that left. It returns the jobs to judge again:
// those without an end in this run. paused has the names of paused jobs that left.
func (c *Core) updateMembership() (again []bool, paused map[place]bool) {
	again, paused = make([]bool, len(c.jobs)), map[place]bool{}
	for id, j := range c.each {
		if j.gone = c.at[id] < 0; j.gone && j.paused {
			paused[c.nameOf(id)] = true
		}
		in := !j.gone && (c.opts.Selected == nil || c.opts.Selected[id])
		judged := slices.Contains(Rejudged, j.phase.public())
		switch {
		case j.own > 0:
		case !in:
			c.leave(id)
		case j.phase == unselected:
			c.join(id)
			again[id] = true
		case judged && !c.forgotten[id]:
			c.set(id, pending)
			again[id] = true
		case j.phase == ready || j.phase == held:
			c.set(id, pending)
		}
	}
	return again, paused
}

// pauseAgain pauses the jobs of the reloaded files with these names. A job whose command has
// changed is a new job, but the user paused it by name.
func (c *Core) pauseAgain(names map[place]bool) {
	for id, j := range c.each {
		if len(names) > 0 && !j.gone && !j.paused && j.phase == pending && names[c.nameOf(id)] {
			j.paused = true
			c.pauses++
		}
	}
}

func (c *Core) join(id int32) {
	j := &c.jobs[id]
	j.phase = pending
	c.total++
	c.counts[pending]++
}

// leave removes a job without running attempts from the run.
func (c *Core) leave(id int32) {
	j := &c.jobs[id]
	if j.phase == unselected {
		return
	}
	c.set(id, pending)
	c.total--
	c.counts[pending]--
	j.phase = unselected
	if j.paused {
		j.paused = false
		c.pauses--
	}
}

// judgeAgain decides again which of these jobs run. Decisions on all other jobs stand.
func (c *Core) judgeAgain(again []bool) {
	f := verdictPass{c: c, open: openKeys(c.h)}
	for _, id := range c.graph.order {
		j := &c.jobs[id]
		if !again[id] {
			if j.fate = runs; j.phase.good() || j.phase == unselected {
				j.fate = stays
			}
			continue
		}
		j.fate, j.reason = f.verdict(id)
		if p := j.judged(); p == upToDate && j.attempt > 0 { // it succeeded before it left the run
			c.set(id, succeeded)
		} else {
			c.set(id, p)
			j.attempt, j.failures, j.quit = 0, 0, false
		}
	}
}

// rerunAfterNeeds reruns jobs that succeeded in this run if their needs have changed or will run
// again. For example, adding jobs reruns the job that tabulates all results.
func (c *Core) rerunAfterNeeds() {
	f := verdictPass{c: c}
	for _, id := range c.graph.order {
		j := &c.jobs[id]
		if j.phase != succeeded || j.gone || len(c.b.Jobs[id].Needs) == 0 {
			continue
		}
		rec := c.last(id)
		if rec == nil || rec.By != "" || rec.Forgotten {
			continue
		}
		need := slices.IndexFunc(c.b.Jobs[id].Needs, func(n int32) bool { return c.jobs[n].phase != unselected && !c.jobs[n].phase.over() })
		if need >= 0 {
			need = int(c.b.Jobs[id].Needs[need])
		}
		if why := f.fromNeeds(id, rec, int32(need)); why.text != "" {
			c.set(id, pending)
			j.fate, j.reason, j.attempt, j.failures = runs, why, 0, 0
		}
	}
}

func (ev TakeOverRequested) on(c *Core) {
	maps.Copy(c.evidence, ev.Evidence)
	c.judgeAgain(c.applyEnds(ev.Facts))
	c.recount()
}

// applyEnds records successes of jobs that are not running, and unblocks the jobs that need them.
// It returns the jobs of the run that have ended as a result.
func (c *Core) applyEnds(facts map[int]state.Fact) (ended []bool) {
	ended = make([]bool, len(c.jobs))
	for id, j := range c.each {
		f, given := facts[int(id)]
		r := c.last(id)
		if !given || j.own > 0 || (j.phase == succeeded || j.phase == upToDate) && (r == nil || !r.Forgotten) {
			continue
		}
		c.record(c.file(id), id, f)
		delete(c.forgotten, id)
		c.reopen(id)
		ended[id] = j.phase != unselected
	}
	return ended
}

// matchAttempts finds the jobs of live attempts, and the jobs that must wait for them. A job must
// wait if an attempt was started under its name, which also names the log, but with a different
// command.
func (c *Core) matchAttempts() {
	jobs := c.jobsOf(c.live.all)
	for _, a := range c.live.all {
		c.count(a, -1)
		if ids := jobs[a.byKey()]; len(ids) > 0 && a.job < 0 && c.jobs[ids[0]].own == 0 {
			c.assign(a, ids[0])
			c.set(ids[0], running)
		}
		c.follow(a, jobs)
		c.count(a, 1)
	}
}

// Gone reports whether a job is no longer in the files and has no running attempt.
func (c *Core) Gone(job int) bool { return c.jobs[job].gone && c.jobs[job].own == 0 }

// History returns the history from the ledgers. It belongs to the core's goroutine.
func (c *Core) History() *state.History { return c.h }

// Begun reports whether the engine has answered for all attempts of earlier runs.
func (c *Core) Begun() bool { return c.begun }
