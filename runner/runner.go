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

// Now returns the time as the core takes it.
func Now() sched.Now { return sched.Now{Boot: host.Boottime(), Wall: time.Now().UTC()} }

// Config is everything a run consists of. The caller opens and closes the parts;
// Run uses them until it returns.
type Config struct {
	Batch  *jobspec.Batch
	Core   *sched.Core
	Ledger Ledger
	Starts []state.Fact // one run fact per file, appended to its ledger first
	Prober probe.Prober // nil without GPUs
	Engine engine.Opened
	Does   engine.Abilities // of the Engine
	Host   HostRules        // nil without GPUs
	Rules  Ruler            // without it, settings stay as they are
	Reread Reader           // without it, the files are read only once
	Taken  func()           // is told that the run goes by what was read again
	Say    func(string)     // tells the user what is no warning
	Warn   func(string)     // tells the user of a warning as it happens; may be nil
	Spent  func(gpu.Spent)  // is told now and then what the run knows of the use of the GPUs so far; nil without them
	Code   []*codecopy.Tree // by file: the copy of the code that jobs run in; nil for none
	Sinks  []Sink
	// Report returns what a block dialect script has reported of its attempt: the engine
	// sees only what uni_id.json says when the tree is empty. nil for none.
	Report  func(job int, uniID string) (end, errorType string)
	Log     zerolog.Logger
	Reloads <-chan struct{}            // signals to read the files again
	Stops   <-chan sched.StopRequested // stops requested by signals
	Control <-chan *control.Call       // requests from other commands; nil for none
	Environ []string                   // gpurun's own environment, which jobs inherit
	Indexed bool                       // CUDA_VISIBLE_DEVICES may use indices: every GPU that NVML counts is accessible and not in MIG mode
	Now     func() sched.Now
	Go      func(f func()) // starts a goroutine and handles its panics
}

// HostRules returns the current host rules, complete for some users, and warnings.
type HostRules func(users []int) (*gpu.HostRules, []string)

// Run runs the batch to its end and returns the outcome. It returns when nothing is
// running, or when ctx is done, in which case running jobs keep running.
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

// loop is the one goroutine's state.
type loop struct {
	Config
	ctx      context.Context
	inbox    chan func()   // what goroutines beside the loop have it do
	queue    []sched.Event // events for the core
	timer    *time.Timer
	finished bool
	spent    time.Duration   // when that was last kept
	starts   []engine.Launch // of the current step
	asks     []engine.Attempt

	attempts  attempts
	readings  readings
	reloads   reloads
	book      backlog
	shown     shown
	foresight foresight
	warnings  warnings
	out       tally
}

// attempts holds the loop's state of starting and running jobs.
type attempts struct {
	live  map[string]*attempt
	fresh []bool // by job: this run has started a new log for it
	ports *ports
	shell []string                 // for jobs that specify none
	find  func(*state.Attempt) int // the job of an earlier run's attempt, or -1

	copies  map[*codecopy.Tree]int // of the code: how many attempts are in each, also those that are being prepared
	settled time.Duration          // when copies without were last looked for
}

// attempt is the loop's state of a prepared or running attempt.
type attempt struct {
	job      int // -1 if it belongs to no job of this batch
	file     int
	launch   engine.Launch // of an earlier run's: what is known of it
	out      logPart
	outputs  []string
	metrics  []jobspec.Metric
	reports  *jobspec.Metric // which of them prune goes by; nil for none
	read     files.Place     // how far its log has been read for that
	code     *codecopy.Tree  // the copy of the code that it runs in; nil for none
	snapshot string          // that copy, as its start has it
	curve    string          // where the points of its curves go; "" for nowhere
	port     int
	ack      func()       // lets the engine signal it, once the ledger has the reason
	onGPU    map[int]bool // processes seen on its GPUs
	behind   bool         // it goes on as what its commands left in the background

	evidence func() sched.Evidence // of an earlier run's attempt: what the file system shows now
}

// shown tracks the snapshots that the sinks have received.
type shown struct {
	dirty  bool // something has changed since
	at     time.Time
	silent []string // parts of the engine that do not answer
}

// inboxSize lets goroutines that finish at once continue without waiting for the loop.
const inboxSize = 256

func newLoop(ctx context.Context, c Config) *loop {
	l := &loop{Config: c, ctx: ctx, inbox: make(chan func(), inboxSize), timer: time.NewTimer(time.Hour)}
	l.attempts = attempts{
		live: map[string]*attempt{}, fresh: make([]bool, len(c.Batch.Jobs)), ports: newPorts(),
		shell: defaultShell(c.Environ), find: JobFinder(c.Batch), copies: map[*codecopy.Tree]int{},
	}
	l.book.unrecorded = map[string]bool{}
	l.warnings = warnings{said: map[string]bool{}, lost: map[gpu.UUID]bool{}}
	l.out = newTally(c.Now().Wall)
	return l
}

// wait waits for one thing to happen and handles it; false if the context is done.
func (l *loop) wait(tick <-chan time.Time) bool {
	reloads := l.Reloads
	if !l.Core.Begun() {
		reloads = nil // it still looks for jobs of an earlier run: the files are read after that
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
		l.happened(ev)
	case <-reloads:
		l.reload(l.told)
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

// spend saves the run's GPU usage, when it is due or the run is over.
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
	l.beside(func() func() {
		l.Spent(s)
		return func() {}
	})
}

// beside runs slow work outside the loop, and the function it returns in the loop.
func (l *loop) beside(work func() (then func())) {
	l.Go(func() {
		then := work()
		select {
		case l.inbox <- then:
		case <-l.ctx.Done():
		}
	})
}

// step passes an event to the core and carries out the actions it returns, including
// those for events queued on the way.
func (l *loop) step(ev sched.Event) {
	l.queue = append(l.queue, ev)
	for len(l.queue) > 0 {
		ev := l.queue[0]
		l.queue = l.queue[1:]
		var facts []sched.Record // that follow each other: one write
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

// stop passes on a request to stop.
func (l *loop) stop(s sched.StopRequested) {
	if s.All && l.out.Stopped == "" {
		l.out.Stopped = s.Why
	}
	l.step(s)
}

// later queues an event for the core, after the current actions.
func (l *loop) later(ev sched.Event) { l.queue = append(l.queue, ev) }

// do carries out one action. The core orders them: a start is in the ledger before
// its launch.
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
		l.launch() // it may be one of these
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
		l.adopt(a.Attempt)
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

// maxSleep bounds the timer, because Go's timers stop while the machine is suspended
// and CLOCK_BOOTTIME does not.
const maxSleep = time.Minute

func (l *loop) wake(at time.Duration) {
	l.timer.Stop()
	if at != 0 {
		l.timer.Reset(min(max(at-l.Now().Boot, 0), maxSleep))
	}
}

// snapshot returns the current state of the run.
func (l *loop) snapshot() *schema.Status {
	s := l.Core.Snapshot(l.Now())
	s.Live.Silent = schema.List(l.shown.silent)
	l.foresight.foreseen(s)
	return s
}

// show passes a snapshot to the sinks if it is time for one.
func (l *loop) show() {
	now := l.Now()
	if len(l.Sinks) == 0 || (!l.shown.dirty && now.Wall.Sub(l.shown.at) < time.Second) {
		return
	}
	l.foresee()
	l.shown.dirty, l.shown.at = false, now.Wall
	s := l.snapshot()
	for _, sink := range l.Sinks {
		sink.Snapshot(s)
	}
	l.save()
}
