package runner

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Config is everything a run consists of. The caller opens and closes the parts;
// Run uses them until it returns.
type Config struct {
	Batch  *jobspec.Batch
	Core   *sched.Core
	Ledger Ledger
	Starts []state.Fact // one run fact per file, appended to its ledger first
	Prober probe.Prober // nil without GPUs
	Engine engine.Engine
	Sinks  []Sink
	// Report returns what a block dialect script has reported of its attempt: the engine
	// sees only what uni_id.json says when the tree is empty. nil for none.
	Report  func(job int, uniID string) (end, errorType string)
	Log     zerolog.Logger
	Stops   <-chan sched.StopRequested // stops requested by signals
	Control <-chan *control.Call       // requests from other commands; nil for none
	Environ []string                   // gpurun's own environment, which jobs inherit
	Indexed bool                       // CUDA_VISIBLE_DEVICES may use indices: every device that NVML lists is accessible
	Now     func() sched.Now
	Go      func(f func()) // starts a goroutine and handles its panics; nil for a plain go statement
}

// Run runs the batch to its end and returns the outcome. It returns when nothing is
// running any more, or when ctx is done; then running jobs keep running.
func Run(ctx context.Context, c Config) Result {
	l := newLoop(ctx, c)
	defer l.close()
	for file, f := range c.Starts {
		l.record(sched.Record{File: file, Job: -1, Fact: f})
	}
	l.step(sched.Began{})
	for !l.finished {
		if !l.wait(ctx) {
			break
		}
	}
	l.write()
	return l.result()
}

// loop is the one goroutine's state.
type loop struct {
	Config
	ctx       context.Context
	cancel    context.CancelFunc
	inbox     chan sched.Event
	queue     []sched.Event // events for the core
	live      map[string]*attempt
	fresh     []bool // by job: this run has started a new log for it
	ports     *ports
	gpus      *reader
	timer     *time.Timer
	ticker    *time.Ticker
	dirty     bool // something has changed since the last snapshot
	shown     time.Time
	unwritten []sched.Record  // facts for the next write
	urgent    bool            // some of them must be written now
	facts     []state.Fact    // scratch of append
	unsaved   []sched.Record  // ends that could not be written yet
	dropped   map[string]bool // starts that could not be written: do not launch
	unstarted map[string]bool // dropped starts whose end is still to come
	acks      map[string]func()
	shell     []string // for jobs that specify none
	inherited *environ
	finished  bool
	byKey     map[fileKey]int // built when an attempt is adopted
	out       tally
	said      map[string]bool   // warnings already given
	lost      map[gpu.UUID]bool // devices that do not answer
	silent    []string          // parts of the engine that do not answer
	blind     bool              // the last reading failed
}

// attempt is what the loop knows of an attempt that is prepared or running.
type attempt struct {
	job     int // -1 if it belongs to no job of this batch
	file    int
	uniID   string
	name    string // of its job
	dir     string
	launch  engine.Launch
	out     logPart
	outputs []string
	grant   gpu.Grant
	port    int
	onGPU   map[int]bool // processes seen on its GPUs
	behind  bool         // it goes on as what its commands left in the background

	evidence func() sched.Evidence // of an earlier run's attempt: what the file system shows now
}

// inboxSize lets goroutines that finish at once continue without waiting for the loop.
const inboxSize = 256

func newLoop(ctx context.Context, c Config) *loop {
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{
		Config: c, ctx: ctx, cancel: cancel,
		inbox:   make(chan sched.Event, inboxSize),
		live:    map[string]*attempt{},
		fresh:   make([]bool, len(c.Batch.Jobs)),
		ports:   newPorts(),
		timer:   time.NewTimer(time.Hour),
		ticker:  time.NewTicker(250 * time.Millisecond),
		dropped: map[string]bool{}, unstarted: map[string]bool{},
		acks: map[string]func(){},
		said: map[string]bool{}, lost: map[gpu.UUID]bool{},
		shell: defaultShell(c.Environ), inherited: newEnviron(c.Environ),
	}
	l.out.begin(c)
	if c.Prober != nil {
		l.gpus = newReader(ctx, c.Prober, c.Engine, l.inbox, c.Go)
	}
	return l
}

func (l *loop) close() {
	l.cancel()
	l.timer.Stop()
	l.ticker.Stop()
	if l.gpus != nil {
		l.gpus.wait()
	}
}

// wait waits for one thing to happen and handles it; false if ctx is done.
func (l *loop) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case ev := <-l.inbox:
		l.step(l.seen(ev))
		if f, ok := ev.(finished); ok {
			l.forget(f.at)
		}
	case ev, ok := <-l.Engine.Events():
		if !ok {
			return false
		}
		l.happened(ev)
	case s := <-l.Stops:
		l.out.stopped(s)
		l.step(s)
	case call := <-l.Control:
		l.answer(call)
	case <-l.timer.C:
		l.step(sched.Woken{})
	case <-l.ticker.C:
		l.show()
		l.checkState()
	}
	return true
}

// step passes an event to the core and carries out the actions it returns, including
// those for events queued on the way.
func (l *loop) step(ev sched.Event) {
	l.queue = append(l.queue, ev)
	for len(l.queue) > 0 || l.urgent {
		if len(l.queue) == 0 {
			l.write()
			continue
		}
		ev := l.queue[0]
		l.queue = l.queue[1:]
		for _, a := range l.Core.Step(l.Now(), ev) {
			if !mayWait(a) {
				l.write()
			}
			l.do(a)
		}
	}
	l.dirty = true
}

// later queues an event for the core, after the current actions.
func (l *loop) later(ev sched.Event) { l.queue = append(l.queue, ev) }

// do carries out one action. The core orders them: a start is in the ledger before
// its launch.
func (l *loop) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Record:
		l.record(a)
	case sched.Prepare:
		l.prepare(a)
	case sched.Discard:
		l.discard(a.UniID)
	case sched.Yield:
		l.Engine.Yield(a.UniID, a.UUIDs)
	case sched.Launch:
		l.start(a)
	case sched.End:
		how := engine.Term
		if a.Kill {
			how = engine.Kill
		}
		l.Engine.Stop(a.UniID, a.Why, how)
	case sched.Adopt:
		l.adopt(a.Attempt)
	case sched.Warn:
		l.warn([]string{a.Text})
	case sched.Ack:
		if ack := l.acks[a.UniID]; ack != nil {
			delete(l.acks, a.UniID)
			ack()
		}
	case sched.Read:
		if l.gpus != nil {
			l.gpus.ask(a)
		}
	case sched.Wake:
		l.wake(a.At)
	case sched.Finish:
		l.out.gaveUp = a.GaveUp
		l.finished = true
	}
}

// maxSleep bounds the timer, because Go's timers stop while the machine is suspended
// and CLOCK_BOOTTIME does not.
const maxSleep = time.Minute

func (l *loop) wake(at time.Duration) {
	l.timer.Stop()
	if at == 0 {
		return
	}
	l.timer.Reset(min(max(at-l.Now().Boot, 0), maxSleep))
}

// seen handles the part of a goroutine's event that is the loop's, and returns the core's.
func (l *loop) seen(ev sched.Event) sched.Event {
	switch ev := ev.(type) {
	case prepared:
		l.live[ev.attempt.uniID] = ev.attempt
		return ev.event
	case warned:
		l.warn(ev.warnings)
		return l.seen(ev.event)
	case cramped:
		l.stateFailed(ev.err)
		return ev.event
	case finished:
		l.warnOf(ev.at.name, ev.ev)
		return ev.ev
	case sched.Observed:
		l.missing(ev.Observation)
		l.whose(&ev.Observation)
		for i := range ev.Readings {
			l.onGPU(&ev.Readings[i])
		}
	}
	return ev
}

// snapshot returns the current state of the run.
func (l *loop) snapshot() state.Snapshot {
	s := l.Core.Snapshot(l.Now())
	s.Silent = l.silent
	return s
}

// show passes a snapshot to the sinks if it is time for one.
func (l *loop) show() {
	l.write()
	now := l.Now()
	if len(l.Sinks) == 0 || (!l.dirty && now.Wall.Sub(l.shown) < time.Second) {
		return
	}
	l.dirty, l.shown = false, now.Wall
	s := l.snapshot()
	for _, sink := range l.Sinks {
		sink.Snapshot(s)
	}
	l.save()
}
