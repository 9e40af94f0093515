package runner

import (
	"context"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/state"
)

// A Play is the script of one attempt in a Sim. The zero Play exits 0 immediately.
type Play struct {
	For      time.Duration // how long it runs unless stopped; negative: until it is stopped
	AtOnce   bool          // one event reports its start and its end
	Exit     int
	Signal   string        // ends it instead of Exit, such as "SIGKILL"
	OOM      bool          // Ended.OOMKilled
	Report   string        // Ended.Report
	LeftOver int           // Ended.LeftOver
	Err      string        // why it cannot be started
	NoRoom   bool          // Ended.NoRoom, with Err
	TermFor  time.Duration // how long it runs after SIGTERM; it is killed after the grace period
	TermExit int           // its exit code after SIGTERM if TermFor is positive; otherwise SIGTERM kills it
}

// Sim is an engine without processes. It uses package time, so it takes no real time in a synctest
// bubble.
type Sim struct {
	events chan engine.Event
	play   func(engine.Launch) Play

	mu      sync.Mutex
	queue   []engine.Event
	queued  chan struct{}
	quit    chan struct{}
	pumped  chan struct{}
	closed  bool
	nextPID int
	live    map[string]*simAttempt
	left    map[string]*simAttempt // attempts of an earlier run, until adopted
	started []string
}

type simAttempt struct {
	uniID   string
	pid     int
	play    Play
	grace   time.Duration
	started time.Time
	why     string
	end     *time.Timer // for the attempt's own end, its SIGTERM handler, or SIGKILL
	limit   *time.Timer
	at      time.Time // when end fires
	past    *state.End
}

// NewSim returns a Sim whose attempts follow play.
func NewSim(play func(engine.Launch) Play) *Sim {
	s := &Sim{
		events: make(chan engine.Event), play: play, queued: make(chan struct{}, 1), quit: make(chan struct{}),
		pumped: make(chan struct{}), nextPID: 1000, live: map[string]*simAttempt{}, left: map[string]*simAttempt{},
	}
	go s.pump()
	return s
}

// Leave adds an attempt of an earlier run, which follows p once it is adopted.
func (s *Sim) Leave(uniID string, started time.Time, p Play) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextPID++
	s.left[uniID] = &simAttempt{uniID: uniID, pid: s.nextPID, play: p, started: started}
}

// LeaveEnded adds an attempt that has ended without a recorded end.
func (s *Sim) LeaveEnded(uniID string, e state.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[uniID] = &simAttempt{uniID: uniID, past: &e}
}

// Launched returns the uni_ids of all launches so far, in order.
func (s *Sim) Launched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.started...)
}

// Live returns the number of running attempts.
func (s *Sim) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// PID returns the PID of a live attempt, or 0.
func (s *Sim) PID(uniID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.live[uniID]; a != nil {
		return a.pid
	}
	return 0
}

// Launch starts attempts, which follow their plays.
func (s *Sim) Launch(all ...engine.Launch) {
	for _, l := range all {
		s.launch(l)
	}
}

func (s *Sim) launch(l engine.Launch) {
	p := s.play(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, l.UniID)
	if p.Err != "" {
		s.emit(engine.Event{UniID: l.UniID, Ended: &state.End{ExitCode: -1, At: time.Now(), Err: p.Err, NoRoom: p.NoRoom}})
		return
	}
	s.nextPID++
	a := &simAttempt{uniID: l.UniID, pid: s.nextPID, play: p, grace: l.Grace, started: time.Now()}
	s.begin(a, false)
	if l.Timeout > 0 {
		a.limit = time.AfterFunc(l.Timeout, func() { s.timedOut(a) })
	}
}

// begin makes an attempt live. The caller holds s.mu.
func (s *Sim) begin(a *simAttempt, adopted bool) {
	r := &engine.Running{PID: a.pid, PIDStart: uint64(a.pid), Adopted: adopted, Started: a.started}
	if a.play.AtOnce {
		s.emit(engine.Event{UniID: a.uniID, Running: r, Ended: &state.End{Started: a.started, At: time.Now()}})
		return
	}
	s.live[a.uniID] = a
	s.emit(engine.Event{UniID: a.uniID, Running: r})
	if a.play.For >= 0 {
		s.endIn(a, a.play.For, a.play.Exit, a.play.Signal)
	}
}

// endIn ends an attempt after a delay, unless it already ends sooner.
func (s *Sim) endIn(a *simAttempt, d time.Duration, exit int, signal string) {
	at := time.Now().Add(d)
	if a.end != nil {
		if !a.at.After(at) {
			return
		}
		a.end.Stop()
	}
	a.at = at
	a.end = time.AfterFunc(d, func() { s.end(a, exit, signal) })
}

func (s *Sim) end(a *simAttempt, exit int, signal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[a.uniID] != a {
		return
	}
	delete(s.live, a.uniID)
	if a.limit != nil {
		a.limit.Stop()
	}
	if signal != "" {
		exit = -1
	}
	s.emit(engine.Event{UniID: a.uniID, Ended: &state.End{
		ExitCode: exit, Signal: signal, Why: a.why, Started: a.started, At: time.Now(), Elapsed: time.Since(a.started),
		OOMKilled: a.play.OOM && a.why == "", Report: a.play.Report, LeftOver: a.play.LeftOver,
	}})
}

func (s *Sim) timedOut(a *simAttempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[a.uniID] != a || a.why != "" {
		return
	}
	a.why = state.WhyTimeout
	var once sync.Once
	term := func() { once.Do(func() { s.Stop(a.uniID, state.WhyTimeout, engine.Term) }) }
	t := time.AfterFunc(time.Second, term)
	s.emit(engine.Event{UniID: a.uniID, Stopping: &engine.Stopping{
		Why: state.WhyTimeout, Ack: func() { t.Stop(); term() },
	}})
}

// Stop ends an attempt as its play handles SIGTERM, or immediately if how is Kill.
func (s *Sim) Stop(uniID, why string, how engine.StopMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.live[uniID]
	if a == nil {
		return
	}
	if a.why == "" {
		a.why = why
	}
	switch {
	case how == engine.Kill:
		s.endIn(a, 0, 0, "SIGKILL")
	case a.play.TermFor <= 0:
		s.endIn(a, 0, 0, "SIGTERM")
	case a.play.TermFor > a.grace:
		s.endIn(a, a.grace, 0, "SIGKILL")
	default:
		s.endIn(a, a.play.TermFor, a.play.TermExit, "")
	}
}

// Save stops an attempt as its play handles SIGTERM, once the runner has acknowledged the reason.
func (s *Sim) Save(uniID, why, _ string, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[uniID] != nil {
		s.emit(engine.Event{UniID: uniID, Stopping: &engine.Stopping{Why: why, Ack: func() { s.Stop(uniID, why, engine.Term) }}})
	}
}

// Adopt adopts the attempts of Leave and LeaveEnded. It reports any other as never started.
func (s *Sim) Adopt(all ...engine.Attempt) {
	for _, at := range all {
		s.adopt(at)
	}
}

func (s *Sim) adopt(at engine.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.left[at.UniID]
	delete(s.left, at.UniID)
	switch {
	case a == nil:
		s.emit(engine.Event{UniID: at.UniID, Ended: &state.End{ExitCode: -1, Started: at.Started, At: time.Now(), Lost: true, Void: true}})
	case a.past != nil:
		s.emit(engine.Event{UniID: at.UniID, Ended: a.past})
	default:
		a.grace = at.Grace
		s.begin(a, true)
	}
}

// Attempt returns the attempt with the given PID.
func (s *Sim) Attempt(pid int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.live {
		if a.pid == pid {
			return id
		}
	}
	return ""
}

// OnGPU does nothing, because attempts have no background processes.
func (s *Sim) OnGPU(string, []int) {}

// Claim does nothing and finds no other claims. Tests of claims wrap a Sim.
func (s *Sim) Claim(context.Context, string, string, gpu.Grant) ([]gpu.Claim, []string, error) {
	return nil, nil, nil
}

// Stand does nothing.
func (s *Sim) Stand(string, string, gpu.Grant, int) {}
func (s *Sim) Outlast(string)                       {}

// Withdraw does nothing.
func (s *Sim) Withdraw(string) {}

// Yield does nothing.
func (s *Sim) Yield(string, []gpu.UUID) {}

// Offer does nothing.
func (s *Sim) Offer(string, gpu.UUID, string) {}

// Wish does nothing.
func (s *Sim) Wish(gpu.Wish) {}

// Wishes returns none.
func (s *Sim) Wishes() []gpu.Wish { return nil }

// Others returns no claims.
func (s *Sim) Others(context.Context, []gpu.Reading) ([]gpu.Claim, []string) { return nil, nil }

// CPU returns nothing.
func (s *Sim) CPU([]string) map[string]time.Duration { return nil }

// Quarantines returns none.
func (s *Sim) Quarantines() []gpu.Quarantine { return nil }

// Quarantine does nothing.
func (s *Sim) Quarantine(gpu.Quarantine) error { return nil }

// Events returns the channel of all events.
func (s *Sim) Events() <-chan engine.Event { return s.events }

// Close stops the engine and all its attempts.
func (s *Sim) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for id, a := range s.live {
		if a.end != nil {
			a.end.Stop()
		}
		if a.limit != nil {
			a.limit.Stop()
		}
		delete(s.live, id)
	}
	close(s.quit)
	s.mu.Unlock()
	<-s.pumped
	close(s.events)
	return nil
}

func (s *Sim) emit(ev engine.Event) {
	s.queue = append(s.queue, ev)
	select {
	case s.queued <- struct{}{}:
	default:
	}
}

func (s *Sim) pump() {
	defer close(s.pumped)
	for {
		s.mu.Lock()
		batch := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, ev := range batch {
			select {
			case s.events <- ev:
			case <-s.quit:
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-s.queued:
		case <-s.quit:
			return
		}
	}
}
