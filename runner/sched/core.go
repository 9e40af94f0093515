package sched

import (
	"cmp"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// Options are a run's command-line options.
type Options struct {
	Selected  []bool        // by job: --only, --skip, --tag; nil for all
	Forced    []bool        // by job: --force; nil for none
	Watch     bool          // more jobs may come: do not finish when all jobs have ended
	NoPrune   bool          // jobs with prune run to completion
	NoWait    bool          // finish as soon as nothing can start immediately
	CPUs      int           // cores for this run; 0 means no limit
	Memory    gpu.Bytes     // host memory for this run; 0 means no limit
	Sim       bool          // the GPUs are simulated, so successes on simulated GPUs count
	Elsewhere bool          // the engine chooses the GPUs, among devices that gpurun cannot see
	Queues    bool          // an attempt may wait for its turn after its launch
	MaxOpen   int           // maximum number of attempts in the engine; 0 means no limit
	Largest   gpu.Bytes     // memory of the largest GPU that the engine can choose; 0 if unknown
	MaxTotal  int           // maximum number of GPUs for all of this user's jobs on the cluster; 0 means no limit
	Ends      time.Time     // end of the cluster job that contains the run; zero for none
	Within    string        // name of that cluster job: "slurm job 12"
	Run       string        // this run's ID
	UID       int           // uid of its user
	Name      string        // name of the command that it is, for the line of waiting runs; "" for a batch
	Steady    time.Duration // how long GPUs must have been busy, idle or free before a resize; 0 means a minute

	Zone *time.Location // time zone of the hours setting; nil for UTC
}

// Core is the scheduler's state. One goroutine owns it.
type Core struct {
	b    *jobspec.Batch
	h    *state.History
	pool *gpu.Pool // nil if this run grants no devices
	opts Options

	now Now      // time of the current event
	out []Action // actions in response to it

	progress
	readyJobs
	devices
	wishing
	resizes
	ending
	steering
	gathering gathering
	usage     usageStats
	live      attempts
	readings  readings
	sampling  sampling
	breaker   breaker
	health    health
	sharing   sharing
	pruning   pruning
	wasted    lostTime
	failures  failures
}

// failures counts the jobs that failed permanently, and lists the latest.
type failures struct {
	count int
	last  []schema.FailedJob // at most maxFresh
}

// ending tracks the phase of the run and the reason for its end.
type ending struct {
	begun    bool   // the engine has answered for all adopted attempts, and all jobs have been judged
	draining string // why no more jobs start, or ""

	failedFast bool // the run drains because of fail_fast or max_wait, so it still concludes
	concluding bool // jobs with when: always or failure no longer wait for held jobs
	changed    bool // a job was held, released or interrupted since concluding was set

	stopping bool          // running jobs are also being stopped
	broken   bool          // the ledger cannot be written
	gaveUp   bool          //
	vain     *schema.Next  // when the run gave up: the job it was waiting for, and why
	wakeAt   time.Duration // time of the Wake last requested
	idle     time.Duration // since when all submitted jobs have been waiting in a cluster's queue; 0 if one is running
	fillAt   time.Duration // when time alone may let some job start; 0 for never
	finished bool
}

// New creates the core of a run. The core takes ownership of history, which holds what
// the ledgers recorded, and keeps it up to date.
func New(b *jobspec.Batch, history *state.History, opts Options) *Core {
	opts.Zone, opts.Steady = cmp.Or(opts.Zone, time.UTC), cmp.Or(opts.Steady, time.Minute)
	c := &Core{
		b: b, h: history, opts: opts,
		progress: progress{
			jobs: make([]job, len(b.Jobs)), graph: newGraph(b), evidence: map[int]Evidence{},
			grown: map[int32]gpu.Bytes{}, grownHost: map[int32]gpu.Bytes{},
		},
		readyJobs: readyJobs{
			byNeed: map[need]*class{}, lines: map[string]*firstInLine{}, waiter: waiter{firstInLine: noneInLine()},
		},
		devices: devices{cooling: map[gpu.UUID]time.Duration{}},
		resizes: resizes{
			last: map[int32]time.Duration{}, declined: map[int]time.Duration{}, warned: map[int32]bool{},
		},
		steering: steering{
			forgotten: map[int32]bool{},
			limit:     Limit{Jobs: -1}, // no run has this limit, so the engine is always sent the first one
		},
		usage:   usageStats{commands: map[uint64][]float32{}, widths: map[int][]float32{}},
		live:    attempts{byID: map[string]*attempt{}, pools: map[string]int{}},
		breaker: breaker{groups: map[uint64]failureGroup{}},
		health:  newHealth(),
	}
	c.fillQueues()
	c.rank()
	for id := range c.each {
		if opts.Selected == nil || opts.Selected[id] {
			c.join(id)
		}
	}
	return c
}

// Use gives the core the devices that its jobs may be granted. It is called before the
// run begins, if at all.
func (c *Core) Use(pool *gpu.Pool) { c.pool = pool }

// Step takes one event and returns the actions it calls for.
func (c *Core) Step(now Now, ev Event) []Action {
	c.now, c.out = now, nil
	if c.pool != nil {
		c.pool.AdvanceTo(now.Boot)
	}
	if c.finished {
		switch ev := ev.(type) {
		case Prepared:
			c.do(Discard{UniID: ev.Start.UniID})
		case Gathered:
			c.do(Ungather{UniID: ev.UniID})
		}
		return c.out
	}
	ev.on(c)
	c.settle()
	return c.out
}

// Spent returns the use of devices since the run began, if known.
func (c *Core) Spent() gpu.Spent {
	if c.pool == nil {
		return gpu.Spent{}
	}
	return c.pool.Spent()
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// settle does everything that the event made possible: ends that follow from other ends, due
// retries, starts, readings, the next Wake, and the end of the run.
func (c *Core) settle() {
	if c.fillAt > 0 && c.now.Boot >= c.fillAt {
		c.refill = true
	}
	c.prune()
	c.proceed()
	c.countLost()
	if c.giveUp(); c.gaveUp && c.conclude() {
		c.proceed()
	}
	c.steerQueue()
	c.resize()
	c.wish()
	c.yield()
	if c.finish() {
		return
	}
	c.read()
	c.sample()
	at, fill := c.nextTime()
	if c.fillAt = fill; at != c.wakeAt {
		c.wakeAt = at
		c.do(Wake{At: at})
	}
}

// proceed moves jobs on until nothing changes any more.
func (c *Core) proceed() {
	for {
		c.cascade()
		c.due()
		c.examine()
		c.dealFreed()
		c.yieldToForeground()
		c.fill()
		if len(c.ended) == 0 && !c.conclude() && !c.breakDeadlock() && !c.changed {
			return
		}
	}
}

func (Woken) on(c *Core) { c.wakeAt = 0 }

// on records why an attempt waits in the cluster's queue and, once, its job ID there.
func (ev Queued) on(c *Core) {
	a := c.live.byID[ev.UniID]
	if a == nil {
		return
	}
	if ev.JobID != "" && ev.JobID != a.jobID {
		f := a.fact(state.KindQueued, c.now)
		f.JobID = ev.JobID
		c.record(a.file, a.job, f)
	}
	a.jobID, a.reason, a.expected = ev.JobID, ev.Reason, ev.Expected
	c.answered(a)
}

func (ev StateFailed) on(c *Core) {
	c.broken = true
	c.drain("no more jobs can start: " + ev.Err)
}

// record emits a fact and applies it.
func (c *Core) record(file int, job int32, f state.Fact) {
	if f.Kind == state.KindEnd && job >= 0 { // a job's last end must hold all that prune needs
		if o := c.h.Open[f.UniID]; o != nil {
			f.NoPrune = o.Start.NoPrune
			c.jobs[job].anew = c.jobs[job].anew && f.Withdrawn(&o.Start)
		} else {
			f.NoPrune = c.anotherTry(job)
		}
		if len(f.Points) == 0 {
			f.Points = c.pruning.curves[job]
		}
		if len(f.Points) > 0 {
			f.PointsRule = c.pointsRule(job)
		}
	}
	c.do(Record{File: file, Job: int(job), Fact: f})
	c.apply(file, f)
}

// apply applies a fact to the history and to the live attempt it concerns.
func (c *Core) apply(file int, f state.Fact) {
	c.h.Apply(file, f)
	a := c.live.byID[f.UniID]
	if a == nil {
		return
	}
	switch f.Kind {
	case state.KindStart:
		if a.start, a.log, a.n = f.Time, f.Log, int32(f.Attempt); f.Engine != "" {
			a.submitted = f.Time
		}
	case state.KindRunning:
		a.pid = f.PID
		if f.Host != "" {
			held := a.grant.HostResources
			a.start, a.host, a.grant = f.Time, f.Host, f.Grant()
			a.grant.HostResources = held
		}
	case state.KindPoints:
		c.report(a.job, f.Points)
	case state.KindStop:
		if a.stop == "" || a.stop == state.WhyResize {
			a.stop, a.stopAt = f.Why, f.Time
		}
	}
}

// giveUp ends the wait once the first job waiting for a GPU has waited long enough while no job of
// this run held a GPU. Long enough is max_wait or, with --no-wait, until all GPUs have been read
// once. --no-wait lets a hand-over finish first if that may let a job start. max_wait keeps
// counting during a hand-over, since the driver may fail in the middle of it.
func (c *Core) giveUp() {
	w, now := &c.waiter, c.now.Boot
	c.closeHandOvers(func(h *handOver) bool { return now-h.began >= handOverFor }) // its memory was not freed in time
	if c.opts.Queues {
		c.giveUpQueued()
		return
	}
	if c.opts.NoWait && c.outsideHours() != "" && len(c.live.all) == 0 && c.firstReady() >= 0 {
		c.vain, _ = c.next()
		c.gaveUp = true
		return
	}
	if !c.opts.NoWait && c.live.onGPUs > 0 && len(c.live.inUse()) == 0 {
		return // a start may still fail because another run claims its GPU
	}
	if !c.awaitsGPU() || c.live.onGPUs+len(c.moves) > 0 || c.opts.NoWait && len(c.passing()) > 0 {
		w.alone = 0
		return
	}
	if w.alone == 0 {
		w.alone = now
		if c.opts.NoWait && c.readings.tried < now {
			c.readings.next = now
		}
	}
	limit := c.b.Settings.MaxWait
	enough := limit > 0 && now-w.alone >= limit
	if c.opts.NoWait {
		enough = c.readings.tried >= w.alone && !c.readings.all.out
	}
	if enough {
		if c.vain, _ = c.next(); c.vain == nil {
			return // the job starts unless another look at its GPUs prevents that
		}
		c.gaveUp = true
		w.id, w.kept = -1, nil
		c.gather()
	}
}

// awaitsGPU reports whether a job waits for a GPU or, while no job of this run is live, for cores or
// host memory that other runs hold.
func (c *Core) awaitsGPU() bool {
	gpus := func(cl *class) bool { return cl.gpus && c.firstOf(cl) >= 0 }
	return c.waiter.id >= 0 || c.squeezed && !c.gaveUp && len(c.live.all) == 0 && slices.ContainsFunc(c.classes, gpus)
}

// giveUpQueued ends the wait once all live attempts have waited in the cluster's queue for
// max_wait.
func (c *Core) giveUpQueued() {
	if len(c.live.all) == 0 || !c.live.allQueued() || c.live.allOnHold() || !c.begun {
		c.idle = 0
		return
	}
	if c.idle == 0 {
		c.idle = c.now.Boot
	}
	limit := c.b.Settings.MaxWait
	if limit == 0 || c.now.Boot-c.idle < limit || c.sealed() {
		return
	}
	c.gaveUp = true
	first := c.live.all[0]
	c.vain = &schema.Next{Job: first.name, Text: first.queueState.String()}
	c.drain("no job started on the cluster within max_wait")
	c.endAll(state.WhyInterrupted, false)
	c.failedFast = true
}

// breakDeadlock handles a batch whose jobs wait for each other. Loading a batch rules this out. If
// it happens anyway, breakDeadlock marks the first of these jobs blocked, rather than wait forever.
func (c *Core) breakDeadlock() bool {
	if !c.begun || c.sealed() || c.pauses > 0 || len(c.live.all)+len(c.moves) > 0 || c.counts[pending] == 0 || c.counts[ready]+c.counts[waiting] > 0 {
		return false
	}
	for id, j := range c.each {
		if j.phase == pending {
			c.end(id, blocked)
			return true
		}
	}
	return false
}

// finish ends the run when it has nothing left to do.
func (c *Core) finish() bool {
	left := c.counts[pending] + c.counts[ready] + c.counts[waiting]
	if len(c.live.all) > 0 || !c.sealed() && (!c.begun || left > 0 && !(c.gaveUp && (c.onlyGPUs() || c.outsideHours() != ""))) {
		return false
	}
	if c.awaitsOffers() || (c.rereading || c.opts.Watch && !c.gaveUp) && c.draining == "" {
		return false
	}
	for i := range c.hands {
		c.hands[i].until = 0
	}
	c.yield()
	c.abandonRetries()
	c.warnExceeding()
	c.finished = true
	c.do(Finish{GaveUp: c.gaveUp, Lost: c.wasted.take()})
	return true
}

// onlyGPUs reports whether every remaining job waits for a GPU, or for a job that does.
func (c *Core) onlyGPUs() bool {
	for _, d := range c.backoff {
		if c.jobs[d.id].phase == waiting && c.spec(d.id).Request.Max == 0 {
			return false
		}
	}
	for _, cl := range c.classes {
		if !cl.gpus && c.firstOf(cl) >= 0 {
			return false
		}
	}
	return true
}

// nextTime returns when the next timed event is due (at), and when the next one that may let a job
// start is due (fill). Each is 0 for never. Most timed events are readings.
func (c *Core) nextTime() (at, fill time.Duration) {
	first := func(of *time.Duration) func(time.Duration) {
		return func(t time.Duration) {
			if t > c.now.Boot && (*of == 0 || t < *of) {
				*of = t
			}
		}
	}
	by := first(&fill)
	if d, ok := c.nextRetry(); ok && !c.sealed() {
		by(d.at)
	}
	c.health.nextTrial(c.live.started, by)
	if c.firstReady() >= 0 {
		by(c.Opens(c.now))
	}
	c.nextYield(by)
	for _, m := range c.moves {
		by(m.began + whole)
		by(m.began + handOverFor)
	}
	by(c.turnChanges)
	if c.pool != nil {
		by(c.pool.Turns.Due())
	}
	by(c.gathering.Next)
	if limit := c.b.Settings.MaxWait; c.idle > 0 && limit > 0 {
		by(c.idle + limit)
	}
	if w := &c.waiter; w.id >= 0 {
		for _, until := range c.cooling {
			by(until)
		}
		by(w.began[w.id] + c.b.Settings.Patience)
	}
	if limit := c.b.Settings.MaxWait; c.waiter.alone > 0 && limit > 0 {
		by(c.waiter.alone + limit)
	}
	at = fill
	c.nextRead(first(&at))
	c.sampling.nextDue(first(&at))
	return at, fill
}
