package sched

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
	"gpurun/state/schema"
)

// An attempt holds resources from its grant, through preparation and running, until its end.
type attempt struct {
	job        int32     // -1 if no job of the batch has its key
	file       int       // index of the file whose ledger has it
	uniID      string    // "" while being prepared
	n          int32     // 1, 2, …
	grant      gpu.Grant // including what is reserved on the host
	asks       int       // GPUs requested from the engine
	pool       jobspec.PoolUse
	queue      string // its job's queue when it started
	name       string // its job's name and key when it started
	key        string
	log        string
	start      time.Time
	began      time.Duration // CLOCK_BOOTTIME of its start; 0 if an earlier run started it
	pid        int
	queueState        // while it waits in the queue of a cluster
	host       string // where it runs; "" for this host

	submitted time.Time // to a cluster; zero if this host runs it

	background string // why it keeps running after its commands have ended, or ""
	behind     int    // PID of the process that keeps it running

	stopping
	origin
	elastic
	usage
	watch stall.Watch
	heard state.Curve // points of its prune metric that are not recorded yet
}

// queueState is an attempt's state in the queue of a cluster.
type queueState struct {
	queued bool
	jobID  string // on the cluster; "" if not known yet
	reason string // why it waits, according to the cluster

	expected  time.Time // start that the cluster expects; zero if unknown
	suspended bool      // it has begun, but the cluster has suspended it
	onHold    bool      // its user has paused it, so the cluster must hold it
	withdrawn bool      // it must leave the queue, unless it begins first
}

// stopping is why an attempt is being stopped.
type stopping struct {
	stop   string    // or ""
	stopAt time.Time // when this run recorded the stop
	prior  bool      // an earlier run decided to stop it
	cause  string    // why it gives way or was pruned, or ""
}

// origin describes where an attempt came from, if this run did not start it.
type origin struct {
	adopted   bool    // from an earlier run
	asked     bool    // the engine has not yet reported on it
	followers []int32 // other jobs, which must wait for it because of their names or files
	free      int32   // earlier attempts that spent no retry
}

// attempts holds all live attempts.
type attempts struct {
	all         []*attempt          // in the order of their grants
	byID        map[string]*attempt // by uni_id
	reserved    gpu.HostResources   // reserved on the host
	onGPUs      int                 // how many hold a GPU
	withoutGPUs gpu.HostResources   // host resources of attempts without GPUs, if this run has GPUs
	asks        int                 // GPUs requested from the engine
	pools       map[string]int      // use of the batch's pools: shared resources such as a slow disk or a license
}

// started yields the attempts that have left preparation.
func (l *attempts) started(yield func(*attempt) bool) {
	for _, a := range l.all {
		if a.uniID != "" && !yield(a) {
			return
		}
	}
}

// preparing returns the job's attempt that is being prepared, or nil.
func (l *attempts) preparing(job int) *attempt {
	for _, a := range slices.Backward(l.all) { // there may be thousands; those being prepared come last
		if a.uniID == "" && a.job == int32(job) {
			return a
		}
	}
	return nil
}

// gpus returns the number of GPUs in the attempt's grant.
func (a *attempt) gpus() int { return max(len(a.grant.UUIDs), len(a.grant.Indices)) }

// hold returns the attempt's name in the pool.
func (a *attempt) hold() string {
	if a.uniID == "" {
		return "prepare " + strconv.Itoa(int(a.job))
	}
	return a.uniID
}

// fact returns a fact about the attempt with the fields that all kinds share.
func (a *attempt) fact(kind state.Kind, now Now) state.Fact {
	return state.Fact{Kind: kind, Time: now.Wall, Job: a.name, Key: a.key, UniID: a.uniID, Attempt: int(a.n)}
}

// take reserves everything that an attempt holds.
func (c *Core) take(a *attempt) {
	l := &c.live
	l.all = append(l.all, a)
	if a.uniID != "" {
		l.byID[a.uniID] = a
	}
	c.count(a, 1)
	c.setQueued(a, a.queued)
	if c.onPool(a) {
		c.pool.Hold(a.hold(), a.grant)
		c.endHandOver(a.grant.UUIDs)
	}
}

// giveBack undoes take. A stuck attempt keeps its GPUs, because its processes may still use them.
// outrun means that another run took the GPUs first, so earlier readings of them are out of date.
func (c *Core) giveBack(a *attempt, stuck, outrun bool) {
	l := &c.live
	l.all = slices.DeleteFunc(l.all, func(b *attempt) bool { return b == a })
	delete(l.byID, a.uniID)
	c.setQueued(a, false)
	c.count(a, -1)
	if c.onPool(a) && !stuck {
		switch {
		case a.uniID != "":
			c.beginHandOver(a, c.pool.Release(c.now.Boot, a.hold()))
		case outrun:
			c.pool.Yield(c.pool.Release(c.now.Boot, a.hold()))
		default:
			c.pool.Undo(a.hold())
		}
	}
	c.refill = true
}

// setQueued records whether an attempt is in the queue of a cluster.
func (c *Core) setQueued(a *attempt, queued bool) {
	if a.queued = queued; a.job >= 0 {
		c.jobs[a.job].queued = queued
	}
}

// allQueued reports whether all live attempts wait in the queue of a cluster.
func (l *attempts) allQueued() bool {
	return !slices.ContainsFunc(l.all, func(a *attempt) bool { return !a.queued })
}

// whyQueued describes the wait of a job's attempt in the queue of a cluster.
func (c *Core) whyQueued(id int32) *schema.Wait {
	for _, a := range c.live.all {
		if a.job == id && a.queued {
			return a.queueState.wait(c.now)
		}
	}
	return nil
}

// wait returns what an attempt waits for; nil if it is running.
func (s queueState) wait(now Now) *schema.Wait {
	switch {
	case s.queued && s.onHold:
		return waits(schema.WaitPaused, "queued %s: paused, and held on the cluster until you run gpurun resume", s.jobID)
	case s.queued && s.expected.After(now.Wall):
		w := waits(schema.WaitCluster, "%s; expected to start at %s", s, gpu.Clock(s.expected, now.Wall))
		w.Expected, w.Reason = schema.Time(s.expected), schema.Known(s.reason)
		return w
	case s.queued:
		w := waits(schema.WaitCluster, "%s", s)
		w.Reason = schema.Known(s.reason)
		return w
	case s.suspended:
		return waits(schema.WaitCluster, "suspended by the cluster")
	}
	return nil
}

func (s queueState) String() string {
	return strings.TrimSuffix(strings.TrimSpace("queued "+s.jobID)+": "+s.reason, ": ")
}

// onPool reports whether an attempt holds devices of the pool.
func (c *Core) onPool(a *attempt) bool { return len(a.grant.UUIDs) > 0 && c.pool != nil }

// count adds an attempt's resources to the reserved ones, or subtracts them if by is -1.
func (c *Core) count(a *attempt, by int) {
	c.live.reserved.Add(a.grant.HostResources, by)
	c.live.asks += by * a.asks
	if a.pool.N > 0 {
		c.live.pools[a.pool.Name] += by * a.pool.N
	}
	if c.onPool(a) {
		c.live.onGPUs += by
	} else if c.pool != nil {
		c.live.withoutGPUs.Add(a.grant.HostResources, by)
	}
	if a.job >= 0 {
		c.jobs[a.job].own += int16(by)
	}
	for _, id := range a.followers {
		c.jobs[id].held += int16(by)
	}
}

// unblockAfter unblocks jobs that waited for an attempt. The attempt's own job must already be in
// its next phase.
func (c *Core) unblockAfter(a *attempt) {
	for _, id := range a.followers {
		c.consider(id)
	}
	c.queueMoves(c.queueOf(a))
	if a.job >= 0 && c.jobs[a.job].phase == unselected && c.begun {
		for _, d := range c.graph.needers[a.job] {
			c.jobs[d].unmet, c.jobs[d].bad = c.needed(d)
			c.consider(d)
		}
	}
}

// queueOf returns the queue of an attempt's job, or -1. Even if no job has the attempt's key now, its
// queue must wait for it.
func (c *Core) queueOf(a *attempt) int32 {
	if a.job >= 0 {
		return c.b.Jobs[a.job].Queue
	}
	return c.b.QueueOf(a.file, a.queue)
}

// on records the start of an attempt and launches it.
func (ev Prepared) on(c *Core) {
	a, uni := c.live.preparing(ev.Job), ev.Start.UniID
	if a == nil || uni == "" || c.live.byID[uni] != nil {
		c.do(Discard{UniID: uni})
		return
	}
	j := &c.jobs[a.job]
	// Since the grant, the user may have paused the job, or a reloaded file may make it wait.
	unwanted := a.stop != "" || c.sealed() || c.isHeld(a.job) || c.paused || j.paused || j.gone || j.unmet > 0
	rival := !unwanted && c.onPool(a) && (c.pool.Conflict(c.now.Boot, a.grant, ev.Claims) != "" || c.overcommits(a))
	if unwanted || rival {
		c.do(Discard{UniID: uni})
		if rival {
			c.coolDown(a.grant.UUIDs, uni, "")
		}
		c.abandon(a, false)
		return
	}
	if c.onPool(a) {
		c.pool.Rename(a.hold(), uni)
		c.refusals = 0
		c.sharing.begin(a, &c.live, c.pool)
	}
	if c.onPool(a) || c.squeezed {
		c.since = c.now.Wall // not earlier: a run that loses a race has not had its turn
	}
	a.uniID, a.began = uni, c.now.Boot
	c.live.byID[uni] = a
	c.refill = c.refill || c.counts[preparing] == maxPreparing || len(c.gathering.claims) > 0
	j.attempt = a.n
	start := c.startFact(a, ev.Start)
	c.record(a.file, a.job, start)
	c.set(a.job, running)
	c.setQueued(a, c.opts.Queues)
	c.lookFor(a)
	c.readings.begun(c.now.Boot)
	c.do(Launch{Job: int(a.job), UniID: uni, Key: start.Key, Needs: start.Needs, Rank: int(c.ranks[a.job])})
}

// startFact adds the core's fields to a start from the edge.
func (c *Core) startFact(a *attempt, f state.Fact) state.Fact {
	f.Kind, f.Time = state.KindStart, c.now.Wall
	f.Job, f.Key, f.Attempt = a.name, a.key, int(a.n)
	f.GPUs, f.GPUUUIDs, f.Memory, f.Close = a.grant.Indices, a.grant.UUIDs, a.grant.Memory, a.grant.Close
	f.Free = max(0, int(a.n)-1-int(c.jobs[a.job].failures))
	f.Lost, f.Anew = c.wasted.take(), c.jobs[a.job].anew
	f.NoPrune = !f.Anew && c.anotherTry(a.job)
	f.Queue = c.b.QueueName(c.b.Jobs[a.job].Queue)
	if a.pool.N > 0 {
		f.Pool = map[string]int{a.pool.Name: a.pool.N}
	}
	f.Needs, f.SeedGroup = new(needsHash).of(c.b, c.b.Jobs[a.job].Needs), c.seedGroupName(a.job)
	return f
}

// abandon gives back a grant that led to no start. If the attempt was cancelled, so is its
// job; otherwise, the job waits again.
func (c *Core) abandon(a *attempt, outrun bool) {
	c.giveBack(a, false, outrun)
	if a.stop == state.WhyCancelled {
		c.cancelUnstarted(a.job)
	} else {
		c.putBack(a.job)
	}
	c.unblockAfter(a)
}

// putBack makes a job that did not start wait again, or removes it if its file no longer has it.
func (c *Core) putBack(id int32) {
	c.set(id, pending)
	if c.jobs[id].gone {
		c.leave(id)
	} else {
		c.consider(id)
	}
}

// on handles a failed Prepare. A lost race is not a failure of the job.
func (ev PrepareFailed) on(c *Core) {
	a := c.live.preparing(ev.Job)
	switch {
	case a == nil:
	case a.stop != "" || c.sealed() || c.jobs[a.job].gone:
		c.abandon(a, false)
	case ev.Rival:
		c.coolDown(a.grant.UUIDs, a.name, ev.Reason)
		c.abandon(a, true)
	default:
		c.giveBack(a, false, false)
		c.jobs[a.job].attempt = a.n
		cause := state.CauseStartFailed
		if ev.Input {
			cause = state.CauseInputMissing
		}
		f := c.failUnstarted(a.job, state.Failed, cause, ev.Reason)
		c.countFailure(a.job, failed, f, 0)
		c.unblockAfter(a)
	}
}

// failUnstarted records the end of a job that never started.
func (c *Core) failUnstarted(id int32, p state.Phase, cause state.CauseCode, reason string) state.Fact {
	f := state.Fact{
		Kind: state.KindEnd, Time: c.now.Wall, Job: c.name(id), Key: c.b.Jobs[id].Key.String(),
		Attempt: int(c.jobs[id].attempt), State: p, Cause: cause, Reason: reason,
	}
	if p == state.Failed {
		f.ErrorType = state.ErrExit
		f.NoRetry = c.noRetry(id, &f, unknown)
	}
	c.record(c.file(id), id, f)
	return f
}

func (ev Started) on(c *Core) {
	a := c.live.byID[ev.UniID]
	if a == nil {
		return
	}
	if a.queued {
		a.began = c.now.Boot
		c.pruning.fresh = true
	}
	c.setQueued(a, false)
	if a.pid != ev.PID && ev.PID > 0 {
		f := a.fact(state.KindRunning, c.now)
		if f.PID, f.PIDStart, f.Host = ev.PID, ev.PIDStart, ev.Host; f.Host != "" && !ev.At.IsZero() {
			f.Time = ev.At.UTC()
		}
		if ev.Grant != nil {
			f.GPUs, f.GPUUUIDs = ev.Grant.Indices, ev.Grant.UUIDs
		}
		c.record(a.file, a.job, f)
	}
	c.answered(a)
}

func (ev Suspended) on(c *Core) {
	if a := c.live.byID[ev.UniID]; a != nil {
		a.suspended = ev.Is
	}
}

func (ev Backgrounded) on(c *Core) {
	if a := c.live.byID[ev.UniID]; a != nil {
		a.background, a.behind = ev.What, ev.PID
	}
}

// on records why the engine is about to signal an attempt, before it does so.
func (ev StopAnnounced) on(c *Core) {
	if a := c.live.byID[ev.UniID]; a != nil {
		c.recordStop(a, ev.Why)
	}
	c.do(Ack{UniID: ev.UniID})
}
