package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// Limits on the lists in a snapshot.
const (
	maxWaiting = 20
	maxQueues  = 50
	maxHeld    = 20
	maxRivals  = 8
	maxFresh   = 1000
)

// Snapshot returns the state of the run for display. It lists running and queued jobs in the order
// of their starts, then the next retries. The caller groups the failures.
func (c *Core) Snapshot(now Now) *schema.Status {
	c.now = now
	phase, counts := c.RunPhase(), map[state.Phase]int{}
	l := &schema.Live{
		Draining: schema.Known(c.draining), Unread: schema.Known(c.readings.err), Held: c.viewHeld(), Queues: c.viewQueues(), Others: []string{}, Silent: []string{}, Stalled: []string{},
		Failed: c.failures.count, Fresh: slices.Clip(c.failures.last),
	}
	if c.pool != nil {
		l.Others, l.GPUs = schema.List(c.pool.Turns.Waiting(maxRivals)), c.pressures()
	}
	for p := pending; p < phaseCount; p++ {
		if n := c.counts[p]; n > 0 {
			counts[p.public()] += n
		}
	}
	s := &schema.Status{
		Head: schema.At(now.Wall), Run: &schema.Run{Alive: true, Phase: &phase}, Alike: []schema.Alike{},
		Warnings: []schema.Problem{}, Live: l, GPUs: c.gpus(now),
	}
	for _, a := range c.live.all {
		if a.queued && a.job >= 0 && c.jobs[a.job].phase == running {
			counts[state.Running]--
			counts[state.Queued]++
		}
		if s.Jobs = append(s.Jobs, c.liveJob(a)); a.watch.LastReport() != "" {
			l.Stalled = append(l.Stalled, a.name)
		}
	}
	s.Counts, s.Jobs = schema.CountsOf(counts), append(s.Jobs, c.nextRetries()...)
	l.Next, l.Kept = c.next()
	l.Bottleneck = c.bottleneck()
	// Readings too old to rely on matter only if a job has waited for newer ones.
	if wanted := max(c.readings.succeeded, c.waiter.began[c.waiter.id]); c.waiter.id >= 0 && c.readings.tried > 0 && now.Boot-wanted > 3*max(c.b.Settings.Poll, time.Second) {
		l.Stale = schema.Known((now.Boot - c.readings.succeeded).Seconds())
	}
	s.Sum()
	return s
}

// liveJob returns the public view of an attempt's job, which may no longer be in the batch.
func (c *Core) liveJob(a *attempt) *schema.Job {
	return &schema.Job{File: c.b.Files[a.file].Real, Name: a.name, Key: a.key, State: a.phase(), Wait: a.queueState.wait(c.now), Attempt: c.public(a)}
}

// pressures returns the state of each GPU, and why the first waiting job cannot have that GPU or
// does not use it.
func (c *Core) pressures() []state.Pressure {
	levels, managed, unused := c.pool.Levels(c.now.Boot), c.pool.Devices(), c.unused()
	all := make([]state.Pressure, len(levels))
	for i, l := range levels {
		all[i].Level = l
		switch usable := slices.ContainsFunc(managed, func(d gpu.Device) bool { return d.UUID == l.UUID }); {
		case !usable && l.Used >= 0:
			all[i].Code = gpu.NotManaged
		case usable && l.Jobs == 0 && !l.Others:
			all[i].Code = unused
		}
		for _, o := range c.wasted.on {
			if o.id == l.UUID && c.wasted.waits {
				all[i].Code, all[i].User = o.Code, o.User
			}
		}
	}
	return all
}

// unused returns what the first ready job waits for, or "" if that job needs no GPUs or none waits.
func (c *Core) unused() gpu.Code {
	id, w := c.first()
	if w == nil || c.spec(id).Request.Max == 0 {
		return ""
	}
	return cmp.Or(map[schema.WaitCode]gpu.Code{schema.WaitGPUs: "too_few_gpus", schema.WaitMemory: "host_memory"}[w.Code], gpu.Code(w.Code))
}

// Jobs returns the public view of the run's jobs: state, wait, and live attempt. The ledger has the
// rest.
func (c *Core) Jobs(now Now) []*schema.Job {
	c.now = now
	type alike struct { // jobs with equal values wait for the same things
		class *class
		after bool // the waiter comes before them
	}
	known := map[alike]*schema.Wait{}
	jobs, others := make([]*schema.Job, len(c.jobs)), []*schema.Job(nil)
	for id := range jobs {
		jobs[id] = &schema.Job{}
	}
	for _, a := range c.live.all {
		if a.job >= 0 {
			jobs[a.job].Attempt, jobs[a.job].Wait = c.public(a), a.queueState.wait(now)
		} else {
			others = append(others, c.liveJob(a))
		}
	}
	for id, own := range c.each {
		j := jobs[id]
		j.File, j.Name, j.Key = c.b.Files[c.file(id)].Real, c.name(id), c.b.Jobs[id].Key.String()
		if j.State, j.Cause = c.Phase(int(id)), c.Blocked(int(id)); own.phase == waiting {
			j.Attempts = int(own.attempt)
		}
		kind := alike{own.class, c.waiter.id >= 0 && c.ranks[c.waiter.id] < c.ranks[id]}
		shared := own.phase == ready && id != c.waiter.id
		switch {
		case j.Wait != nil: // queued or suspended by a cluster
		case shared && known[kind] != nil:
			j.Wait = known[kind]
		default:
			if j.Wait = c.Wait(now, int(id)); shared {
				known[kind] = j.Wait
			}
		}
	}
	return append(jobs, others...)
}

func (a *attempt) phase() state.Phase {
	if a.queued {
		return state.Queued
	}
	return state.Running
}

// stalled describes the missing progress of a stalled attempt, and which jobs wait for it; "" if it
// is not stalled.
func (c *Core) stalled(a *attempt) string {
	told := a.watch.LastReport()
	if told != "" && a.job >= 0 && len(c.graph.needers[a.job]) > 0 {
		told += "; " + c.name(c.graph.needers[a.job][0])
		if n := len(c.graph.needers[a.job]) - 1; n > 0 {
			told += fmt.Sprintf(" and %d more wait for it", n)
		} else {
			told += " waits for it"
		}
	}
	return told
}

// public returns the public view of a live attempt.
func (c *Core) public(a *attempt) *schema.Attempt {
	takes, _ := c.seedGroup(a.job).Took()
	s := &schema.Attempt{
		UniID: schema.Known(a.uniID), N: int(a.n), State: a.phase(), Host: schema.Known(a.host), Started: schema.Time(a.start), PID: schema.Known(a.pid),
		Seconds: schema.AtLeast(c.now.Wall.Sub(a.start).Seconds(), 0), GPUs: schema.Granted(a.grant.UUIDs, a.grant.Indices, a.grant.Memory),
		Closeness: schema.Known(a.grant.Close), Stalled: schema.Known(c.stalled(a)), Background: []schema.BackgroundJob{},
		Stopping: schema.Known(a.stop), Takes: schema.Known(takes.Seconds()),
	}
	if a.log != "" {
		s.Log = &schema.Log{Path: a.log}
	}
	if s.Submitted = schema.Time(a.submitted); s.Submitted != nil {
		s.JobID = schema.Known(a.jobID)
	}
	if a.queued {
		s.Started, s.Seconds = nil, nil
	}
	for i := range min(len(a.gpuUses), len(s.GPUs)) {
		s.GPUs[i].Used, s.GPUs[i].Peak = schema.AtLeast(a.gpuUses[i].used, 0), schema.AtLeast(a.gpuUses[i].peak, 1)
	}
	if a.background != "" {
		s.Background = append(s.Background, schema.BackgroundJob{PID: schema.Known(a.behind), Command: a.background})
	}
	return s
}

// gpus returns the public view of the GPUs that this run may use; nil without GPUs.
func (c *Core) gpus(now Now) []schema.GPU {
	if c.pool == nil {
		return nil
	}
	c.now = now
	var verdicts []gpu.Verdict
	if c.waiter.id >= 0 {
		verdicts = c.pool.Admit(now.Boot, c.request(c.waiter.id))
	}
	managed, levels, list := c.pool.Devices(), c.pool.Levels(now.Boot), []schema.GPU{}
	for i, s := range c.pool.Views(now.Boot) {
		if !slices.ContainsFunc(managed, func(d gpu.Device) bool { return d.UUID == s.UUID }) {
			continue
		}
		g := schema.GPUOf(&s)
		for _, a := range c.live.all {
			if slices.Contains(a.grant.UUIDs, s.UUID) {
				if g.Jobs = append(g.Jobs, a.name); a.watch.LastReport() != "" {
					g.Stalled = append(g.Stalled, a.name)
				}
			}
		}
		if len(g.Jobs) == 0 && levels[i].Used < 0 { // not read recently
			g.Used, g.Free, g.Util, g.Processes = nil, nil, nil, nil
		}
		if verdicts != nil {
			v := verdicts[i]
			if no := c.whyNotOn(c.waiter.id, v); no.text != "" {
				v.OK, v.Code, v.Reason = false, no.code, no.text
			}
			g.Judge(&v)
		}
		list = append(list, g)
	}
	return list
}

// nextRetries returns the jobs whose retries come first.
func (c *Core) nextRetries() (jobs []*schema.Job) {
	for _, d := range c.backoff {
		if c.jobs[d.id].phase == waiting && len(jobs) < maxWaiting {
			jobs = append(jobs, &schema.Job{
				File: c.b.Files[c.file(d.id)].Real, Name: c.name(d.id), Key: c.b.Jobs[d.id].Key.String(), State: state.Waiting, Wait: c.whyRetry(d.id), Attempts: int(c.jobs[d.id].attempt),
			})
		}
	}
	return jobs
}

// next returns the next job in line, with the reason for its wait. kept describes how many GPUs are
// kept for it.
func (c *Core) next() (next *schema.Next, kept *string) {
	id, w := c.first()
	switch {
	case w != nil:
	case c.finished && c.gaveUp:
		return c.vain, nil
	default:
		return nil, nil
	}
	if len(c.waiter.kept) > 0 && id == c.waiter.keptFor {
		kept = schema.Known(fmt.Sprintf("kept for %s: %d of %d GPUs", c.name(id), c.waiter.free, c.request(id).Min))
	}
	return &schema.Next{Job: c.name(id), Text: w.Text}, kept
}

// first returns the first ready job, and why it has not started: it found no GPU, or a limit of
// this run stops it. If no job is ready, running or waiting to retry, first returns the first
// paused job that could start. If there is no such job either, why is nil.
func (c *Core) first() (id int32, why *schema.Wait) {
	if id = c.waiter.id; id < 0 {
		id = c.firstReady()
	}
	switch {
	case id >= 0:
		why = c.whyReady(id)
	case len(c.live.all)+c.counts[waiting] == 0:
		if id = c.firstPaused(); id >= 0 {
			why = c.whyPaused(id)
		}
	}
	return id, why
}

// viewQueues returns the named queues that still have work.
func (c *Core) viewQueues() []schema.Lane {
	views := []schema.Lane{}
	for q := range c.queues {
		if len(views) == maxQueues {
			break
		}
		v := schema.Lane{Name: c.b.QueueName(int32(q)), Busy: schema.Known(c.inQueue(int32(q)))}
		for _, id := range c.queues[q].jobs {
			if p := c.jobs[id].phase; p != unselected && !p.over() {
				v.Left++
			}
		}
		if v.Left > 0 || v.Busy != nil {
			views = append(views, v)
		}
	}
	return views
}

// waits returns a wait. The check that prevents a start also creates its wait, so the wait's code
// always matches the scheduler's decision.
func waits(code schema.WaitCode, format string, args ...any) *schema.Wait {
	return &schema.Wait{Code: code, Text: fmt.Sprintf(format, args...), Jobs: []string{}, GPUs: []schema.WaitGPU{}}
}

// Wait returns what a job that has not started waits for, or nil.
func (c *Core) Wait(now Now, job int) *schema.Wait {
	c.now = now
	id := int32(job)
	switch p := c.jobs[id].phase; {
	case p == waiting:
		return c.whyRetry(id)
	case p == held:
		return c.whyHeld(id)
	case p == running && c.jobs[id].queued:
		return c.whyQueued(id)
	case p != pending && p != ready:
		return nil
	case c.sealed() && !(c.failedFast && c.anyway(id)):
		return waits(schema.WaitDraining, "no more jobs start: %s", c.draining)
	case p == ready:
		return c.whyReady(id)
	case !c.begun:
		return waits(schema.WaitEarlier, "checking for attempts of an earlier run")
	}
	if b := c.barrier(id); b != nil {
		return b.why(c, id)
	}
	return nil
}

// Why describes the job's wait, or why it is blocked; "" for neither.
func (c *Core) Why(now Now, job int) string {
	if w := c.Wait(now, job); w != nil {
		return w.Text
	}
	if cause := c.Blocked(job); cause != nil {
		return cause.Text
	}
	return ""
}

func (c *Core) whyRetry(id int32) *schema.Wait {
	for _, d := range c.backoff {
		if d.id == id {
			left, unit := max(d.at-c.now.Boot, 0), time.Second
			if left < 10*time.Second {
				unit = 100 * time.Millisecond
			}
			w := waits(schema.WaitRetry, "attempt %d in %s", c.jobs[id].attempt+1, left.Round(unit))
			w.Until = schema.Time(c.now.Wall.Add(d.at - c.now.Boot))
			return w
		}
	}
	return nil
}

// Blocked returns which need keeps a job from running, and why, if the job has ended for that
// reason; otherwise nil.
func (c *Core) Blocked(job int) *schema.Cause {
	if n := c.missesPruned(int32(job), c.isPruned); c.jobs[job].phase == pruned && n >= 0 {
		return needPruned(c.name(n))
	}
	if c.jobs[job].phase != blocked {
		return nil
	}
	for _, n := range c.b.Jobs[job].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected && c.lacksNeed(int32(job), n):
			return &schema.Cause{Code: state.CauseNeedFailed, Text: c.whyMissing(n)}
		case p.over() && !p.good() && p != interrupted:
			return needFailed(c.name(n), p.public())
		}
	}
	return &schema.Cause{Code: state.CauseNeedFailed, Text: "this job and others wait for each other"}
}

func needPruned(name string) *schema.Cause {
	return &schema.Cause{Code: state.CausePruned, Text: "needs " + name + ", which was pruned"}
}

func needFailed(name string, p state.Phase) *schema.Cause {
	return &schema.Cause{Code: state.CauseNeedFailed, Text: fmt.Sprintf("needs %s (%s)", name, p)}
}

// whyReady returns the limit or the GPUs that a ready job waits for.
func (c *Core) whyReady(id int32) *schema.Wait {
	if w := c.slots(); w != nil {
		return w
	}
	if w := c.room(id); w != nil {
		return w
	}
	cl, h := c.jobs[id].class, c.waiter.id
	switch _, ok := c.pick(id); {
	case cl.gpus && ok && h >= 0 && h != id && c.ranks[h] < c.ranks[id]:
		return waits(schema.WaitKept, "%s goes first", c.name(h)).On(c.name(h))
	case ok:
		return nil
	case c.gaveUp:
		return waits(schema.WaitGPUs, "gave up: no GPU became free in time")
	}
	w := waits(schema.WaitGPUs, "")
	verdicts := c.pool.Admit(c.now.Boot, cl.req)
	var all []noGPU
	for i := range verdicts {
		v := &verdicts[i]
		no := c.whyNotOn(id, *v)
		if v.Reason = no.text; v.Never || no.text == "" {
			continue
		}
		all = append(all, no)
		w.GPUs = append(w.GPUs, schema.WaitGPU{Index: v.Index, UUID: v.UUID, Code: no.code, Text: no.text})
		w.On(no.job)
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(o noGPU) bool { return o.wait != all[0].wait }) {
		w.Code = all[0].wait
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(o noGPU) bool { return o.user != all[0].user }) {
		w.User = schema.Known(all[0].user)
	}
	if id == c.waiter.id {
		w.Since = schema.Time(c.now.Wall.Add(c.waiter.began[c.waiter.id] - c.now.Boot))
	}
	possible := false
	if w.Text, possible = c.pool.Possible(cl.req); possible { // otherwise, the host's rules have changed
		w.Text = wants(cl.req) + "; " + groupByReason(verdicts, func(v gpu.Verdict) string { return v.Reason })
	}
	return w
}

// A noGPU is why a job cannot have a particular GPU now; an empty text means that it can.
type noGPU struct {
	code gpu.Code
	wait schema.WaitCode // what the job waits for, if it is the same for all GPUs
	user string          // the user whose jobs or processes are the reason, or ""
	job  string          // the job for which the GPU is kept, or ""
	text string
}

// whyNotOn returns why a job cannot have a particular GPU now.
func (c *Core) whyNotOn(id int32, v gpu.Verdict) noGPU {
	if why, is := c.withheld(id, v.UUID, v.OK); is {
		return why
	}
	no := noGPU{code: v.Code, wait: schema.WaitGPUs, user: v.User, text: v.Reason}
	switch {
	case v.OK:
		if no.text = c.pool.Short(c.request(id)); no.text != "" {
			no.code = gpu.Limit
		}
	case v.Host:
		no.wait = schema.WaitHostRule
	case v.Code == gpu.Unread:
		no.wait = schema.WaitNoReadings
	case v.Code == gpu.Kept:
		no.wait = schema.WaitCourtesy
	}
	return no
}
