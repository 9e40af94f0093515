package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/jobspec/source"
	"gpurun/state"
	"gpurun/state/schema"
)

// on records the end of an attempt, releases what it held, and moves its job on.
func (ev Ended) on(c *Core) {
	a := c.live.byID[ev.UniID]
	if a == nil {
		return // it has already ended
	}
	a.metered(ev)
	if ev.Refused {
		a.fault = refused
	}
	if ev.Why == state.WhyStray {
		a.stray = cmp.Or(a.stray, ev.Err)
	}
	f := a.end(ev, c.now)
	c.heardLast(a, ev, f.State)
	if f.ErrorType == state.ErrOOM {
		why := ""
		if a.fault, why = blame(a, ev.Cause, c.pool, func(job int32) gpu.Bytes { return c.most(c.request(job)) }); a.fault == theirs {
			f.Cause = state.CauseOOMNeighbour
		}
		f.Reason = join(f.Reason, why)
	}
	if f.Why == state.WhyPreempted || f.State == state.Pruned {
		f.Reason = a.cause
	}
	if f.State == state.Timeout && a.job >= 0 && ev.Err == "" {
		if t, by := c.timeout(a.job); t > 0 {
			f.Reason += " (" + cmp.Or(by, "timeout: "+source.FormatDuration(t)) + ")"
		}
	}
	p := c.plan(a, &f)
	c.giveBack(a, len(ev.Stuck) > 0, false)
	var s symptoms
	if c.onPool(a) {
		s = c.health.symptoms(c.now.Boot, a, f, ev)
	}
	if f.Uncharged = c.excused(a, s, f, ev); f.Uncharged == "" && a.job >= 0 {
		f.NoRetry = c.noRetry(a.job, &f, a.fault)
	}
	c.recordEnd(a, f)
	c.watch(a, f)
	if c.onPool(a) {
		c.readings.list(c.health.ended(c.now.Boot, a, s, f, c.canRunElsewhere)...)
	}
	switch {
	case a.job >= 0 && !c.begun: // the verdict on its job treats this end like one from before the run
		c.evidence[int(a.job)] = ev.Evidence
	case a.job < 0 || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0:
	case ev.Void && c.broken && f.State != state.Interrupted:
		c.set(a.job, pending) // its start was not recorded, so it never ran
	case (a.withdrawn || c.opts.Queues && c.stopping && f.Began.IsZero()) && ev.Void && f.State == state.Interrupted:
		c.jobs[a.job].attempt-- // this attempt does not count
		c.putBack(a.job)
	default:
		if p != nil && len(ev.Stuck) == 0 && c.draining == "" && !c.jobs[a.job].quit && !c.jobs[a.job].gone {
			c.move(a, p)
		}
		c.decide(a, f, ev.Displaced)
	}
	c.unblockAfter(a)
	c.answered(a)
}

// EndFact returns the ledger fact that ends an attempt left open by an earlier run.
func EndFact(o *state.Attempt, e Ended, now Now) state.Fact {
	a := adopted(o)
	a.metered(e)
	return a.end(e, now)
}

func (a *attempt) end(e Ended, now Now) state.Fact {
	f := a.fact(state.KindEnd, now)
	f.PID, f.Signal, f.Seconds, f.Metrics, f.PeakHost = e.PID, e.Signal, e.Elapsed.Seconds(), e.Metrics, e.PeakHost
	f.Measured, f.LogTo = e.Measured, e.LogTo
	f.PeakMemory, f.PeakReadings, f.Preallocated = a.peak, a.readings, a.hogs
	if len(a.gpuUses) > 1 {
		for _, s := range a.gpuUses {
			f.PeakEach = append(f.PeakEach, s.peak)
		}
	}
	if f.JobID = a.jobID; a.host != "" {
		f.Host, f.GPUs, f.GPUUUIDs, f.Began = a.host, a.grant.Indices, a.grant.UUIDs, a.start
	}
	if !e.At.IsZero() {
		f.Time = e.At.UTC()
	}
	f.Why = a.stopped(e)
	f.State, f.ErrorType, f.Cause, f.Reason = outcome(f.Why, e)
	if f.Why == state.WhyResize && f.State == state.Succeeded {
		f.Why = ""
	}
	if f.ErrorType == state.ErrStalled {
		f.Reason = a.watch.LastReport()
	}
	if f.ErrorType == state.ErrStray {
		f.Reason = cmp.Or(a.stray, f.Reason)
	}
	if f.ErrorType != "" && f.ErrorType != state.ErrTimeout {
		f.Line = e.Line
	}
	if f.State == state.Failed && e.Full != "" {
		f.Reason = strings.TrimSuffix(e.Full+": "+cmp.Or(f.Reason, f.Line), ": ")
	}
	if e.ExitCode >= 0 && !e.Lost && e.Err == "" {
		f.ExitCode = &e.ExitCode
	}
	if f.Cause == state.CauseExit && f.Unrunnable() {
		f.Cause = state.CauseNotFound
	}
	if f.Seconds <= 0 && !a.start.IsZero() && f.Time.After(a.start) && !e.Void {
		f.Seconds = f.Time.Sub(a.start).Seconds()
	}
	if f.ErrorType == state.ErrTimeout {
		f.Reason = "stopped after " + source.FormatDuration(max(time.Second, time.Duration(math.Round(f.Seconds))*time.Second))
		if e.Err != "" {
			f.Reason += " (" + e.Err + ")"
		}
	}
	if f.State == state.Cancelled && a.stop == "" {
		f.Reason = cmp.Or(e.Err, f.Reason)
	}
	return f
}

// byStop is the reason recorded for a job that the user cancelled.
const byStop = "by gpurun stop"

// stopped returns why an ended attempt was stopped, or "". An attempt does not count as stopped if
// it ended on its own before the reason was recorded and no signal reached it: the report of its
// end was just late.
func (a *attempt) stopped(e Ended) string {
	if a.stop == state.WhyResize && !e.Lost {
		return e.Why // it may have ended on its own, or not have been asked
	}
	if a.stop == "" || e.Why == "" && !e.Lost && !e.At.IsZero() && e.At.Before(a.stopAt) {
		return e.Why
	}
	return a.stop
}

// outcome returns how an attempt ended and, unless it succeeded, the kind of failure, the cause and
// the reason. stop is why the attempt was stopped. A reason recorded before the first signal
// decides regardless of the exit status, since an exit with 0 from a checkpoint handler is not a
// success.
func outcome(stop string, e Ended) (p state.Phase, kind string, cause state.CauseCode, reason string) {
	cause = state.StopCause(stop)
	switch stop {
	case state.WhyCancelled:
		return state.Cancelled, "", cause, byStop
	case state.WhyInterrupted, state.WhyFailFast, state.WhyGPU, state.WhyPreempted:
		return state.Interrupted, "", cause, ""
	case state.WhyResize:
		// A job that saves its work and exits with 0 is not done unless its outputs are all there.
		// Nor is one whose trainer was asked instead of its script (Aside): the script may have
		// continued and written the outputs from a half-trained model.
		if !e.Whole || e.Aside || e.ExitCode != 0 || e.Signal != "" || e.Lost || e.Failed != "" {
			return state.Interrupted, "", cause, ""
		}
	case state.WhyPruned:
		return state.Pruned, "", cause, ""
	case state.WhyTimeout:
		return state.Timeout, state.ErrTimeout, cause, ""
	case state.WhyStalled:
		return state.Stalled, state.ErrStalled, cause, ""
	case state.WhyStray:
		return state.Failed, state.ErrStray, cause, "it used a GPU that was not assigned to it"
	}
	switch {
	case e.Lost:
		return state.Lost, state.ErrLost, state.CauseLost, whyLost(e)
	case e.Cause == GPUMemory:
		return state.OOM, state.ErrOOM, state.CauseOOMGPU, e.Failed
	case e.Cause == HostMemory:
		return state.OOM, state.ErrOOM, state.CauseOOMHost, e.Failed
	case e.Good:
		return state.Succeeded, "", "", ""
	case e.LeftRunning != "":
		return state.Failed, state.ErrLeftRunning, state.CauseLeftRunning, e.LeftRunning
	case e.Failed != "" && e.Cause == OutputMissing:
		return state.Failed, state.ErrExit, state.CauseOutputMissing, e.Failed
	case e.Failed != "":
		return state.Failed, state.ErrExit, state.CauseExit, e.Failed
	case e.Signal != "":
		return state.Failed, state.ErrSignal, state.CauseSignal, ""
	case e.Err != "":
		return state.Failed, state.ErrExit, state.CauseStartFailed, e.Err
	case e.ExitCode != 0:
		return state.Failed, state.ErrExit, state.CauseExit, ""
	}
	return state.Succeeded, "", "", ""
}

// whyLost explains why an attempt has no status. A keeper that exits on its own writes one
// first.
func whyLost(e Ended) string {
	switch {
	case e.Err != "":
		return e.Err
	case e.Void:
		return "it never started"
	}
	return "its keeper was killed or the machine went down, so its outcome is unknown"
}

// join joins two reasons, either of which may be "".
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// decide moves a job on after the end of an attempt. Being displaced is excused any number of
// times, unlike other failures.
func (c *Core) decide(a *attempt, f state.Fact, displaced bool) {
	id := a.job
	again := false // it runs again, which spends no retry
	switch f.State {
	case state.Succeeded:
		delete(c.grown, id)
		delete(c.grownHost, id)
		r := c.last(id)
		again = a.adopted && r != nil && !c.real(r) // it succeeded only on simulated GPUs
	case state.Pruned:
	case state.Cancelled, state.Interrupted:
		// A job that an earlier run stopped, or that had to leave a GPU, runs again.
		again = f.State == state.Interrupted || a.prior
		if again && c.jobs[id].quit {
			c.cancelUnstarted(id)
			return
		}
	default:
		if f.Uncharged == "" {
			c.countFailure(id, phaseOf(f.State), f, a.grant.Memory)
			return
		}
		if !displaced && !c.health.excuse(id) {
			c.holdJob(id)
			text := "deferring %s to the next run: %s, and no other GPU was available"
			c.do(Warn{Text: fmt.Sprintf(text, c.name(id), f.Uncharged)})
			return
		}
		again = true
	}
	if again && (!c.sealed() || f.Uncharged != "") && !c.jobs[id].gone {
		c.set(id, pending)
		c.consider(id)
	} else {
		c.end(id, phaseOf(f.State))
	}
}

// countFailure counts a failed attempt, and schedules a retry or ends the job.
func (c *Core) countFailure(id int32, p phase, f state.Fact, granted gpu.Bytes) {
	j := &c.jobs[id]
	r, last := &c.spec(id).Retry, !c.retries(id) || f.NoRetry != ""
	j.failures++
	switch {
	case last:
		c.failPermanently(id, p)
		return
	case j.quit:
		c.cancelUnstarted(id)
		return
	}
	if f.ErrorType == state.ErrOOM && r.MemoryGrowth > 1 {
		c.grow(id, f, granted)
	}
	c.set(id, waiting)
	d := due{c.now.Boot + pause(r, int(j.failures)), id}
	at, _ := slices.BinarySearchFunc(c.backoff, d, due.compare)
	c.backoff = slices.Insert(c.backoff, at, d)
}

// failPermanently ends a job that failed and has no retry left. The history already has its last
// end.
func (c *Core) failPermanently(id int32, p phase) {
	if r := c.last(id); r != nil && c.jobs[id].phase != unselected {
		all := append(c.failures.last, schema.FailedJob{Job: c.name(id), ID: int(id), End: r.Fact, Log: r.Log})
		c.failures.count, c.failures.last = c.failures.count+1, all[max(0, len(all)-maxFresh):]
	}
	c.end(id, p)
	if c.b.Settings.FailFast && c.draining == "" {
		c.drain(c.name(id) + " failed, and fail_fast is set")
		c.endAll(state.WhyFailFast, false)
		c.failedFast = true
	}
}

// retries reports whether a job has a retry left.
func (c *Core) retries(id int32) bool {
	r := &c.spec(id).Retry
	return r.Max < 0 || int(c.jobs[id].failures) < r.Max
}

// noRetry returns why a failure is not retried although its job has a retry left, or "".
func (c *Core) noRetry(id int32, f *state.Fact, of fault) string {
	if f.ErrorType == "" || !c.retries(id) {
		return ""
	}
	on, code := c.spec(id).Retry.On, ""
	if f.ExitCode != nil {
		code = strconv.Itoa(*f.ExitCode)
	}
	switch {
	case c.jobs[id].gone:
		return "it is no longer in its file"
	case of == refused:
		return "the cluster would refuse it again"
	case of == hopeless:
		return "no GPU available to it has more memory"
	case f.ErrorType == state.ErrLeftRunning:
		return "it would leave work in the background again"
	case f.ErrorType == state.ErrStray:
		return "it would use that GPU again"
	case slices.Contains(on, code):
		return ""
	case f.Unrunnable():
		return fmt.Sprintf("exit %s means that a command could not be run; retry: {on: [%[1]s]} retries the job anyway", code)
	case len(on) > 0 && !slices.Contains(on, f.ErrorType):
		return fmt.Sprintf("on: [%s] excludes this failure", strings.Join(on, ", "))
	}
	return ""
}

// pause returns how long a job waits after its n-th failure.
func pause(r *jobspec.Retry, n int) time.Duration {
	if r.BackoffAfter > 0 && n%r.BackoffAfter == 0 {
		return r.Backoff
	}
	return r.Delay
}

// grow makes the next attempt request more memory, up to the most that any GPU could ever offer.
func (c *Core) grow(id int32, f state.Fact, granted gpu.Bytes) {
	req := c.request(id)
	more := func(now gpu.Bytes) gpu.Bytes {
		return gpu.Bytes(math.Ceil(float64(now) * c.spec(id).Retry.MemoryGrowth))
	}
	if c.opts.Elsewhere && f.Cause == state.CauseOOMHost { // only a cluster limits a job to the host memory it requested
		c.grownHost[id] = more(max(c.memory(id), f.PeakHost))
		return
	}
	if req.Max == 0 {
		return
	}
	now, most := max(req.Memory, granted), c.most(req)
	if want := more(now); most == 0 || want < most {
		most = want
	}
	c.grown[id] = max(now, most)
}

// memory returns the host memory that a job currently requests.
func (c *Core) memory(id int32) gpu.Bytes { return max(c.spec(id).Memory, c.grownHost[id]) }

// most returns the most memory that any GPU could ever offer to a request; 0 if unknown.
func (c *Core) most(req gpu.Request) (most gpu.Bytes) {
	if c.pool == nil {
		return c.opts.Largest
	}
	req.Part = false
	for _, d := range c.pool.Devices() {
		req.Memory = gpu.MostOf(d.Total)
		if _, ok := c.pool.Possible(req); ok {
			most = max(most, req.Memory)
		}
	}
	return most
}

// abandonRetries records that pending retries do not start in this run.
func (c *Core) abandonRetries() {
	for _, d := range c.backoff {
		if c.jobs[d.id].phase == waiting && !c.broken {
			c.jobs[d.id].attempt++
			why := cmp.Or(c.draining, "gave up waiting for a GPU")
			c.failUnstarted(d.id, state.Interrupted, state.CauseInterrupted, fmt.Sprintf("the run ended before this retry (%s); the next run retries the job", why))
			c.set(d.id, interrupted)
		}
	}
}

// due is a waiting job, with the time at which it may retry (CLOCK_BOOTTIME).
type due struct {
	at time.Duration
	id int32
}

func (d due) compare(e due) int { return cmp.Or(cmp.Compare(d.at, e.at), cmp.Compare(d.id, e.id)) }

// nextRetry returns the job that may retry first.
func (c *Core) nextRetry() (due, bool) {
	for len(c.backoff) > 0 {
		if d := c.backoff[0]; c.jobs[d.id].phase == waiting {
			return d, true
		}
		c.backoff = c.backoff[1:]
	}
	return due{}, false
}

func (c *Core) due() {
	for !c.sealed() {
		d, ok := c.nextRetry()
		if !ok || d.at > c.now.Boot {
			return
		}
		c.backoff = c.backoff[1:]
		c.set(d.id, pending)
		c.consider(d.id)
	}
}
