package runner

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/control"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// Now returns the current time for the core.
func Now() sched.Now { return sched.Now{Boot: host.Boottime(), Wall: time.Now().UTC()} }

// Config has everything a run needs. The caller opens and closes the parts, and Run uses them until
// it returns.
type Config struct {
	Batch  *jobspec.Batch
	Core   *sched.Core
	Ledger Ledger
	Starts []state.Fact // run fact of each file, appended to its ledger first
	Prober probe.Prober // nil without GPUs
	Engine engine.Opened
	Does   engine.Abilities // abilities of the Engine
	Host   HostRules        // nil without GPUs
	Rules  Ruler            // without it, settings cannot change
	Reread Reader           // without it, files cannot be reloaded
	Taken  func()           // called when the run switches to reloaded files
	Say    func(string)     // prints a message other than a warning
	Warn   func(string)     // prints a warning immediately; may be nil
	Spent  func(gpu.Spent)  // called periodically with the run's GPU usage so far; nil without GPUs
	Code   []*codecopy.Tree // copies of the code by file; nil for none
	Sinks  []Sink
	// Report returns what a block dialect script reported about its attempt, even if uni_id.json
	// has lost the report since: the engine sees only what the file contains once the tree is
	// empty. May be nil.
	Report  func(job int, uniID string) (end, errorType string)
	Log     zerolog.Logger
	Reloads <-chan struct{}            // signals to reload the files
	Stops   <-chan sched.StopRequested // stops requested by signals
	Control <-chan *control.Call       // requests from other commands; may be nil
	Environ []string                   // gpurun's own environment, which jobs inherit
	Indexed bool                       // jobs may use GPU indices, because every GPU that NVML counts is accessible and not in MIG mode
	Now     func() sched.Now
	Go      func(f func()) // starts a goroutine and handles its panics
}

// HostRules returns the current host rules, completed for the given users, and warnings.
type HostRules func(users []int) (*gpu.HostRules, []string)

// Run runs the batch to its end, and returns the outcome. If ctx ends first, Run returns early, and
// running jobs continue.
func Run(ctx context.Context, c Config) schema.Result {
	ctx, cancel := context.WithCancel(ctx)
	l := newLoop(ctx, c)
	defer l.readings.done.Wait()
	defer cancel()
	defer l.timer.Stop()
	for file, f := range c.Starts {
		l.record(sched.Record{File: file, Job: -1, Fact: f})
	}
	l.step(sched.Began{})
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for !l.finished && l.wait(tick.C) {
	}
	l.spend(true)
	l.settle(true)
	return l.result()
}

// loop is the state of the run's main goroutine.
type loop struct {
	Config
	ctx      context.Context
	inbox    chan func()   // functions that other goroutines ask the loop to call
	queue    []sched.Event // events for the core
	timer    *time.Timer
	finished bool
	spent    time.Duration   // when the usage was last saved
	starts   []engine.Launch // launches of the current step
	asks     []engine.Attempt

	attempts  attempts
	readings  readings
	reloads   reloads
	book      backlog
	shown     shown
	foresight estimate
	warnings  warnings
	out       tally
}

// attempts is the loop's record of starting and running jobs.
type attempts struct {
	live  map[string]*attempt
	fresh []bool // by job: this run has started a new log
	ports *ports
	shell []string // for jobs that specify none

	copies  map[*codecopy.Tree]int // number of attempts in each copy of the code, including those being prepared
	settled time.Duration          // when unused copies were last settled
}

// attempt is the loop's record of a prepared or running attempt.
type attempt struct {
	job      int // -1 if the batch has no such job
	file     int
	launch   engine.Launch // incomplete for an attempt of an earlier run
	out      logParts
	outputs  []string
	metrics  []jobspec.Metric
	reports  *jobspec.Metric   // metric that prune uses; nil for none
	read     files.LogPosition // how far the log has been read for that metric
	code     *codecopy.Tree    // the attempt's copy of the code; nil for none
	snapshot string            // path of that copy in the attempt's start
	curve    string            // file for the points of its curves; "" for none
	port     int
	ack      func()       // allows the engine to signal the attempt, once the ledger has the reason
	onGPU    map[int]bool // processes seen on its GPUs
	behind   bool         // its commands have ended and their background processes continue

	watched  func(time.Time) time.Time // for an attempt of an earlier run: see Ledger.Watched
	evidence func() sched.Evidence     // for an attempt of an earlier run: current state of its files
}

// shown tracks which snapshots the sinks have received.
type shown struct {
	dirty  bool      // something has changed since the last one
	at     time.Time // when they received the last one
	silent []string  // parts of the engine that do not answer
}

// inboxSize lets several goroutines that finish together continue without waiting for the loop.
const inboxSize = 256

func newLoop(ctx context.Context, c Config) *loop {
	l := &loop{Config: c, ctx: ctx, inbox: make(chan func(), inboxSize), timer: time.NewTimer(time.Hour)}
	l.attempts = attempts{
		live: map[string]*attempt{}, fresh: make([]bool, len(c.Batch.Jobs)), ports: newPorts(),
		shell: defaultShell(c.Environ), copies: map[*codecopy.Tree]int{},
	}
	l.book.unrecorded = map[string]bool{}
	l.warnings = warnings{said: map[string]bool{}, lost: map[gpu.UUID]bool{}}
	l.out = newTally(c.Now().Wall)
	return l
}

// wait waits for one event and handles it. It returns false if the context is done.
func (l *loop) wait(tick <-chan time.Time) bool {
	reloads := l.Reloads
	if !l.Core.Begun() {
		reloads = nil // jobs of an earlier run are still being identified; reload after that
	}
	select {
	case <-l.ctx.Done():
		return false
	case then := <-l.inbox:
		then()
	case ev, ok := <-l.Engine.Events():
		if !ok {
			return false
		}
		l.handle(ev)
	case <-reloads:
		l.reload(l.reportReload)
	case s := <-l.Stops:
		l.stop(s)
	case call := <-l.Control:
		l.answer(call)
	case <-l.timer.C:
		l.step(sched.Woken{})
	case <-tick:
		l.show()
		l.checkState()
		l.settle(false)
		l.spend(false)
	}
	return true
}

// spendEvery is how often the run's GPU usage is saved for later runs.
const spendEvery = time.Minute

// spend saves the run's GPU usage if it is due or the run is over.
func (l *loop) spend(over bool) {
	now := l.Now().Boot
	if l.Spent == nil || !over && now-l.spent < spendEvery {
		return
	}
	s := l.Core.Spent()
	if l.spent = now; over {
		l.Spent(s)
		return
	}
	l.offload(func() func() {
		l.Spent(s)
		return func() {}
	})
}

// offload calls work in another goroutine, and then, in the loop, the function that work returns.
func (l *loop) offload(work func() (then func())) {
	l.Go(func() {
		then := work()
		select {
		case l.inbox <- then:
		case <-l.ctx.Done():
		}
	})
}

// step passes an event to the core and carries out the resulting actions, including those for
// events that these actions queue.
func (l *loop) step(ev sched.Event) {
	l.queue = append(l.queue, ev)
	for len(l.queue) > 0 {
		ev := l.queue[0]
		l.queue = l.queue[1:]
		var facts []sched.Record // consecutive facts are written together
		for _, a := range l.Core.Step(l.Now(), ev) {
			r, isFact := a.(sched.Record)
			if len(facts) > 0 && (!isFact || r.File != facts[0].File) {
				l.record(facts...)
				facts = nil
			}
			if isFact {
				facts = append(facts, r)
			} else {
				l.do(a)
			}
		}
		l.record(facts...)
		l.launch()
	}
	l.shown.dirty = true
}

func (l *loop) stop(s sched.StopRequested) {
	if s.All && l.out.Stopped == "" {
		l.out.Stopped = s.Why
	}
	l.step(s)
}

// later queues an event for the core, to follow the current actions.
func (l *loop) later(ev sched.Event) { l.queue = append(l.queue, ev) }

// do carries out one action. The core has put the actions in order, so that the ledger records a
// start before its launch.
func (l *loop) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Prepare:
		l.prepare(a)
	case sched.Discard:
		l.discard(a.UniID)
	case sched.Yield:
		l.Engine.Claims.Yield(a.UniID, a.UUIDs)
	case sched.Offer:
		l.Engine.Claims.Offer(a.UniID, a.UUID, a.To)
	case sched.Wish:
		l.Engine.Claims.Wish(a.Wish)
	case sched.Gather:
		l.gather(a)
	case sched.Ungather:
		l.Engine.Claims.Withdraw(a.UniID)
	case sched.Launch:
		l.start(a)
	case sched.End:
		l.launch() // the attempt that must end may be among this step's launches
		how := engine.Term
		switch {
		case a.Kill:
			how = engine.Kill
		case a.Unbegun:
			how = engine.Withdraw
		}
		l.Engine.Stop(a.UniID, a.Why, how)
	case sched.Hold:
		l.launch()
		l.Engine.Queue.Hold(a.UniID, !a.Release)
	case sched.Limit:
		l.Engine.Queue.Limit(a.Jobs, a.GPUs)
	case sched.Save:
		l.launch()
		l.Engine.Trees.Save(a.UniID, state.WhyResize, a.Signal, a.Wait)
	case sched.Adopt:
		l.adopt(a.Job, a.Attempt)
	case sched.Warn:
		l.warn(a.Text)
	case sched.Ack:
		if at := l.attempts.live[a.UniID]; at != nil && at.ack != nil {
			at.ack()
			at.ack = nil
		}
	case sched.Read:
		l.read(a)
	case sched.SampleProgress:
		l.sampleProgress(a.UniIDs)
	case sched.Quarantine:
		l.quarantine(a)
	case sched.Wake:
		l.wake(a.At)
	case sched.Finish:
		l.out.GaveUp, l.out.Lost = a.GaveUp, a.Lost
		l.finished = true
	}
}

// maxSleep bounds the timer, because Go's timers stop while the machine is suspended, but
// CLOCK_BOOTTIME does not.
const maxSleep = time.Minute

func (l *loop) wake(at time.Duration) {
	l.timer.Stop()
	if at != 0 {
		l.timer.Reset(min(max(at-l.Now().Boot, 0), maxSleep))
	}
}

func (l *loop) snapshot() *schema.Status {
	s := l.Core.Snapshot(l.Now())
	s.Live.Silent = schema.List(l.shown.silent)
	l.foresight.addTo(s)
	return s
}

// show passes a snapshot to the sinks if one is due.
func (l *loop) show() {
	now := l.Now()
	if len(l.Sinks) == 0 || (!l.shown.dirty && now.Wall.Sub(l.shown.at) < time.Second) {
		return
	}
	l.estimateEnd()
	l.shown.dirty, l.shown.at = false, now.Wall
	s := l.snapshot()
	for _, sink := range l.Sinks {
		sink.Snapshot(s)
	}
	l.save()
}
