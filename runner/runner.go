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
	"gpurun/runner/workers"
	"gpurun/state"
)

// Config is everything that a run is made of. The caller opens and closes the
// parts; Run uses them until it returns.
type Config struct {
	Batch   *jobspec.Batch
	Core    *sched.Core
	Ledger  Ledger
	Starts  []state.Fact // one run fact for each file's ledger, appended first
	Prober  probe.Prober // nil without GPUs
	Engine  engine.Engine
	Sinks   []Sink
	Log     zerolog.Logger
	Stops   <-chan sched.Stop    // what signals ask for
	Control <-chan *control.Call // requests of other commands; nil for none
	Environ []string             // gpurun's own environment, which jobs inherit
	Indexed bool                 // CUDA_VISIBLE_DEVICES may hold indices: every device that NVML counts is accessible
	Now     func() sched.Now
	Go      func(f func()) // starts a goroutine, and sees to its panics; nil for a plain one
}

// Run carries the batch to its end and says how it went. It returns when nothing
// runs any more, or when ctx is done: then what runs, runs on.
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
	queue     []sched.Event // events that the loop itself has for the core
	live      map[string]*attempt
	fresh     []bool        // by job: its log has been started afresh in this run
	beside    *workers.Pool // prepares and looks
	ports     *ports
	gpus      *reader
	timer     *time.Timer
	ticker    *time.Ticker
	dirty     bool // something has changed since the last snapshot
	shown     time.Time
	unwritten []sched.Record  // facts for the next write
	urgent    bool            // some of them must not wait for company
	facts     []state.Fact    // scratch of append
	unsaved   []sched.Record  // ends that the ledger could not take yet
	dropped   map[string]bool // starts that the ledger could not take: not to be launched
	unstarted map[string]bool // of these, that were dropped, the end is still to come
	acks      map[string]func()
	shell     []string // of jobs that name none
	inherited *environ
	finished  bool
	byKey     map[fileKey]int // made when an attempt is adopted
	out       tally
	said      map[string]bool   // warnings that have been given
	lost      map[gpu.UUID]bool // devices that do not answer
	silent    []string          // parts of the engine that do not answer
	blind     bool              // the last reading was none
}

// attempt is what the loop knows of one that has been prepared and has not ended.
type attempt struct {
	job     int // -1 when it is of no job of this batch
	file    int
	uniID   string
	name    string // of its job
	dir     string
	launch  engine.Launch
	out     logPart
	outputs []string
	grant   gpu.Grant
	port    int
	onGPU   map[int]bool // processes that were seen on its GPUs
}

// inboxSize lets goroutines that finish together go on without waiting for the loop.
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
	l.beside = workers.New(c.Go, ctx.Done())
	l.out.begin(c)
	if c.Prober != nil {
		claims, _ := c.Engine.(claimer)
		l.gpus = newReader(ctx, c.Prober, claims, l.inbox, c.Go)
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

// wait takes one thing that happened and works it off; false when ctx is done.
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
		l.step(sched.Tick{})
	case <-l.ticker.C:
		l.show()
		l.checkState()
	}
	return true
}

// step hands an event to the core and does what it answers, and so on with what
// comes of that.
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

// later queues an event for the core, behind the actions that are being done.
func (l *loop) later(ev sched.Event) { l.queue = append(l.queue, ev) }

// do does one action. The order of actions is the core's: a start is in the
// ledger before its launch.
func (l *loop) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Record:
		l.record(a)
	case sched.Prepare:
		l.prepare(a)
	case sched.Discard:
		l.discard(a.UniID)
	case sched.Yield:
		l.yield(a)
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

// maxSleep bounds the timer: Go's timers stand still while the machine sleeps,
// CLOCK_BOOTTIME does not.
const maxSleep = time.Minute

func (l *loop) wake(at time.Duration) {
	l.timer.Stop()
	if at == 0 {
		return
	}
	l.timer.Reset(min(max(at-l.Now().Boot, 0), maxSleep))
}

// seen completes what a goroutine sent with what only the loop knows.
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
	case sched.Snapshot:
		l.missing(ev.Snap)
		l.whose(&ev.Snap)
		for i := range ev.Snap.Readings {
			l.onGPU(&ev.Snap.Readings[i])
		}
	}
	return ev
}

// snapshot is where the run is now.
func (l *loop) snapshot() state.Snapshot {
	s := l.Core.Snapshot(l.Now())
	s.Silent = l.silent
	return s
}

// show gives the sinks a snapshot when it is time for one.
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
