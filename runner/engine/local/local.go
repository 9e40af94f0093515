// Package local runs attempts as processes on this host. Each runner has a keeper, a separate
// process that is the parent of all jobs of the run. The keeper starts the jobs, drives their
// commands, enforces timeouts, ends whole process trees, and writes each attempt's end to disk
// before it reports the end. Killing a runner loses nothing: the keeper keeps running, and the next
// runner connects to it. If keepers are gone as well, surviving jobs are found through markers,
// records and the process table (recover.go). Nothing is ever started twice.
package local

import (
	"maps"
	"slices"
	"sync"
	"time"

	"gpurun/gpu/claim"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// Kind is the kind of engine that runs attempts as processes on this host.
type Kind struct{}

// Abilities reports that gpurun chooses the GPUs.
func (Kind) Abilities() engine.Abilities { return engine.Abilities{Name: "local"} }

// Open connects to the live keepers of earlier runs and starts a keeper for this run. Without a
// batch folder, it does neither, and the first claim starts this run's keeper.
func (Kind) Open(c engine.Config) (engine.Opened, error) {
	l := newLocal(c)
	if c.Dir != "" {
		if err := l.begin(); err != nil {
			_ = l.Close()
			return engine.Opened{}, err
		}
	}
	l.start(func() { l.out.Pump(l.events, l.stop) })
	l.start(l.watchKeepers)
	if len(c.Claims) > 0 && c.Run != "" {
		l.start(l.listen)
	}
	return engine.Opened{Engine: l, Claims: l, Trees: l}, nil
}

// begin connects to the keepers of earlier runs and starts this run's.
func (l *Local) begin() error {
	if err := l.findKeepers(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.keeper()
	return err
}

// Local is the runner's side of the engine.
type Local struct {
	engine.Config
	events chan engine.Event
	out    *engine.Mailbox[engine.Event] // for readers of Events
	stop   chan struct{}                 // closed by Close
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	own     *remote          // the keeper that starts new attempts; nil if it died or has not been started
	others  map[*remote]bool // keepers of earlier runs
	live    map[string]*entry
	pids    map[procs.ID]string // cached answers of Attempt
	census  procs.Census
	writers writers
	holdings

	silent       []string // keepers that do not answer, as last reported
	failedStarts int      // keepers in a row that ended without sending anything
}

// holdings are a runner's claims, by uni_id, and the known claims of other runs. Local.mu
// guards the maps.
type holdings struct {
	claims map[string]chan *wire.Message // awaited answers
	homes  map[string]*remote            // keepers of claims whose attempts have not been launched
	overs  map[string]*remote            // keepers of claims that no attempt uses any more and that are about to end
	ended  chan struct{}                 // poked when a claim in overs has ended
	stands map[string]engine.Attempt     // commands that this process runs itself; homes has their keepers
	mine   ownAttempts

	// holder reads other runs' claims. When a keeper dies, holder also holds the claims of the
	// keeper's attempts until the next keeper has them. Since it holds them in this process, no
	// claim is missing in between.
	holder    *claim.Holder
	wisher    *claim.Wisher   // the publisher of this run's wish
	unwished  sync.Once       // warns that this run's wishes cannot be published
	offeredTo map[string]bool // runs that have been offered something
}

// An entry is an attempt that this runner launched or asked about and that has not ended.
type entry struct {
	engine.Attempt
	home     *remote // the keeper that has it; nil if none or unknown
	asked    map[*remote]bool
	reported bool // Running was emitted
	adopted  bool
	reached  bool // reach was called
	roots    []procs.ID
	stops    *engine.Mailbox[*wire.Message] // stop requests so far, for the next keeper, or for recover if there is none
}

func newEntry(a engine.Attempt) *entry {
	return &entry{Attempt: a, stops: engine.NewMailbox[*wire.Message]()}
}

func newLocal(c engine.Config) *Local {
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	return &Local{
		Config: c, events: make(chan engine.Event, 64), stop: make(chan struct{}), out: engine.NewMailbox[engine.Event](),
		others: map[*remote]bool{}, live: map[string]*entry{}, pids: map[procs.ID]string{}, writers: writers{},
		holdings: holdings{
			claims: map[string]chan *wire.Message{}, homes: map[string]*remote{}, overs: map[string]*remote{},
			ended: make(chan struct{}, 1), stands: map[string]engine.Attempt{}, offeredTo: map[string]bool{},
			mine: ownAttempts{ids: map[string]bool{}}, holder: claim.NewHolder(c.Claims), wisher: claim.NewWisher(c.Claims),
		},
	}
}

// Events delivers all events.
func (l *Local) Events() <-chan engine.Event { return l.events }

// Close disconnects from the keepers; running attempts keep running.
func (l *Local) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.withdrawAll()
	remotes := l.remotes()
	l.mu.Unlock()
	l.awaitWithdrawn()
	for _, r := range remotes {
		r.close()
	}
	l.work.Wait()
	l.holder.Close()
	l.wisher.Close()
	close(l.events)
	return nil
}

// remotes returns all connected keepers. l.mu is held.
func (l *Local) remotes() []*remote {
	var rs []*remote
	if l.own != nil {
		rs = append(rs, l.own)
	}
	return slices.AppendSeq(rs, maps.Keys(l.others))
}

func (l *Local) emit(ev engine.Event) { l.out.Put(ev) }

// start starts a goroutine that Close waits for.
func (l *Local) start(f func()) {
	l.work.Add(1)
	l.Go(func() {
		defer l.work.Done()
		f()
	})
}

// Launch starts attempts.
func (l *Local) Launch(all ...engine.Launch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, la := range all {
		l.launch(la)
	}
}

// launch starts an attempt. l.mu is held.
func (l *Local) launch(la engine.Launch) {
	if l.live[la.UniID] != nil {
		return
	}
	e := newEntry(engine.Attempt{Identity: la.Identity})
	if ended := l.refuse(&la); ended != nil {
		l.emit(engine.Event{UniID: la.UniID, Ended: ended})
		return
	}
	e.home = l.own
	l.live[la.UniID] = e
	if err := l.own.link.Send(&wire.Message{Op: wire.Launch, Launch: &la}); err != nil {
		e.home, l.own = nil, nil
		l.recover(e)
	}
}

// Stop ends an attempt.
func (l *Local) Stop(uniID, why string, how engine.StopMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.live[uniID]
	if e == nil {
		return
	}
	m := &wire.Message{Op: wire.Stop, UniID: uniID, Why: why, How: how}
	e.stops.Put(m)
	if e.home != nil {
		_ = e.home.link.Send(m)
	}
}

// Save asks an attempt to save its work before it is stopped.
func (l *Local) Save(uniID, why, signal string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.live[uniID]
	switch {
	case e == nil:
	case e.home == nil:
		l.emit(engine.Event{UniID: uniID, Declined: "its keeper has exited"})
	default:
		_ = e.home.link.Send(&wire.Message{Op: wire.Save, UniID: uniID, Why: why, Signal: signal, Wait: wait})
	}
}

// Adopt asks every keeper about attempts of an earlier run. If no keeper has an attempt, the disk
// and the process table decide.
func (l *Local) Adopt(all ...engine.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.adopt(a)
	}
}

// adopt asks about one attempt. l.mu is held.
func (l *Local) adopt(a engine.Attempt) {
	if l.live[a.UniID] != nil {
		return
	}
	e := newEntry(a)
	e.adopted, e.asked = true, map[*remote]bool{}
	if a.PID != 0 {
		e.roots = append(e.roots, procs.ID{PID: a.PID, Start: a.PIDStart})
	}
	l.live[a.UniID] = e
	l.mine.add(a.UniID)
	for r := range l.others {
		if r.newer || r.link.Send(&wire.Message{Op: wire.Adopt, UniID: a.UniID}) == nil {
			e.asked[r] = true
		}
	}
	if len(e.asked) == 0 {
		l.refused(e, nil)
	}
}

func (l *Local) handle(r *remote, m *wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Op == wire.Claimed || m.Op == wire.Withdrawn {
		l.answered(m)
		return
	}
	if m.Op == wire.Warn && !l.closed {
		l.emit(engine.Event{Warnings: m.Warnings})
		return
	}
	e := l.live[m.UniID]
	if e == nil || l.closed || e.home != r && !e.asked[r] {
		return
	}
	switch m.Op {
	case wire.Running:
		l.handleRunning(e, r, m.Running)
	case wire.Background:
		if m.Background != nil {
			l.emit(engine.Event{UniID: m.UniID, Background: m.Background})
		}
	case wire.Step:
		e.roots = append(e.roots, procs.ID{PID: m.Running.PID, Start: m.Running.PIDStart})
	case wire.Stopping:
		ack := func() { _ = r.link.Send(&wire.Message{Op: wire.Ack, UniID: m.UniID}) }
		l.emit(engine.Event{UniID: m.UniID, Stopping: &engine.Stopping{Why: m.Why, Ack: ack}})
	case wire.Declined:
		l.emit(engine.Event{UniID: m.UniID, Declined: m.Why})
	case wire.Ended:
		if m.Running != nil && e.adopted {
			l.handleRunning(e, r, m.Running) // in an event of its own, so that the job's next attempt appends to the log
		}
		e.home = r // this keeper has the claim, even if it had not answered yet
		if e.reported {
			m.Running = nil
		}
		l.end(e, m.Running, m.Ended)
	case wire.Unknown:
		l.refused(e, r)
	}
}

// handleRunning records that the attempt is running under this keeper. l.mu is held.
func (l *Local) handleRunning(e *entry, r *remote, running *engine.Running) {
	if e.reported {
		return
	}
	e.home, e.asked, e.reported = r, nil, true
	e.roots = append(e.roots, procs.ID{PID: running.PID, Start: running.PIDStart})
	c := *running
	c.Adopted = e.adopted
	l.emit(engine.Event{UniID: e.UniID, Running: &c})
	if e.adopted {
		for _, s := range e.stops.Take() {
			e.stops.Put(s)
			_ = r.link.Send(s)
		}
	}
}

// refused records that keeper r does not have the attempt. If r is nil, no keeper has it. l.mu is
// held.
func (l *Local) refused(e *entry, r *remote) {
	if r != nil && !e.asked[r] {
		return
	}
	if delete(e.asked, r); len(e.asked) > 0 || e.home != nil {
		return
	}
	if far := l.reach(e); far != nil && far.link.Send(&wire.Message{Op: wire.Adopt, UniID: e.UniID}) == nil {
		e.asked[far] = true
		return
	}
	l.recover(e)
}

// end records the end of an attempt and emits its last event, which includes the attempt's Running
// if that has not been reported. l.mu is held.
func (l *Local) end(e *entry, unreported *engine.Running, ended *state.End) {
	delete(l.live, e.UniID)
	if len(ended.Stuck) == 0 {
		l.unclaim(e)
	}
	maps.DeleteFunc(l.pids, func(_ procs.ID, uniID string) bool { return uniID == e.UniID })
	l.emit(engine.Event{UniID: e.UniID, Running: unreported, Ended: ended})
}
