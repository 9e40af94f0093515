package local

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu/claim"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// lost handles the loss of a keeper: it claims the GPUs of the keeper's attempts again, and
// recovers the attempts.
func (l *Local) lost(r *remote) {
	for _, a := range l.dropKeeper(r) {
		warnings, err := l.holder.Again(claim.Subject{UniID: a.UniID, Job: a.Job, Grant: a.Grant, Run: l.Run})
		for _, w := range warnings {
			l.Log.Warn().Msg(w)
		}
		if err != nil {
			l.Log.Warn().Msg(err.Error())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, e := range l.live {
		if e.home == r {
			e.home = nil
			l.recover(e)
		} else {
			l.refused(e, r)
		}
	}
}

// dropKeeper records that a keeper is gone and returns its attempts that claim GPUs.
func (l *Local) dropKeeper(r *remote) []engine.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.others, r)
	l.countFailedStart(r)
	if l.own == r {
		l.own = nil
	}
	for uniID, at := range l.overs {
		if at == r {
			l.unclaimed(uniID)
		}
	}
	if l.closed || len(l.Claims) == 0 {
		return nil
	}
	var attempts []engine.Attempt
	for _, e := range l.live {
		if e.home == r && len(e.Grant.UUIDs) > 0 {
			attempts = append(attempts, e.Attempt)
		}
	}
	for uniID, a := range l.stands {
		if l.homes[uniID] == r {
			attempts = append(attempts, a)
		}
	}
	return attempts
}

// recover finds out what happened to an attempt that no keeper has. The attempt may have an end in
// its record. It may never have begun, in which case recover forbids it to begin. Or it may be
// alive, in which case its exit status cannot be known. l.mu is held.
func (l *Local) recover(e *entry) {
	l.start(func() {
		ended := l.follow(e)
		if ended == nil {
			return
		}
		l.mu.Lock()
		l.end(e, nil, ended)
		l.mu.Unlock()
	})
}

// find reads the attempt's record.
func (e *entry) find() (rec *wire.Record, err error) {
	err = host.Patiently(e.Dir, func() (err error) {
		rec, err = wire.Find(e.Dir, e.UniID)
		return err
	})
	return rec, err
}

// follow follows an attempt to its end. It returns nil if the engine is closed first.
func (l *Local) follow(e *entry) *state.End {
	if rec, err := e.find(); err == nil && rec.State == wire.StateOver {
		return &rec.End
	}
	forbidden := host.Patiently(e.Dir, func() error { return wire.Forbid(e.Dir) })
	rec, err := e.find() // again, now that no command can begin
	never := forbidden == nil && (err == nil && rec.Begun == 0 || errors.Is(err, wire.ErrNoRecord))
	switch {
	case err != nil:
		rec = &wire.Record{UniID: e.UniID, Grace: e.Grace, End: state.End{Started: e.Started}}
	case rec.State == wire.StateOver:
		return &rec.End
	case never:
		return &state.End{ExitCode: -1, Started: rec.Started, At: time.Now(), Lost: true, Void: true}
	}
	l.mu.Lock()
	w := watch{l: l, e: e, rec: rec, never: never && len(e.roots) == 0}
	for _, p := range rec.Roots {
		if w.leader = p; p.PID != 0 {
			e.roots = append(e.roots, p)
		}
	}
	w.roots = e.roots
	l.mu.Unlock()
	if rec.BootID != "" && rec.BootID != host.BootID() {
		return w.ended() // the machine has rebooted since
	}
	if age := time.Since(rec.Latest); rec.Begun > 0 && w.leader.PID == 0 && age >= 0 && age < freshStart {
		// The keeper was killed while it created the latest command's process, so that process
		// cannot be distinguished from its own leftovers. The command has hardly begun, so end it.
		w.ending.Begin(rec.Grace)
	}
	if rec.Tree || rec.Behind {
		w.leader = procs.ID{}
	}
	return w.run()
}

// freshStart is how long a command counts as having hardly begun. Tests change it.
var freshStart = 5 * time.Second

// A watch follows the process tree of an attempt that has no keeper, until the attempt ends.
type watch struct {
	l       *Local
	e       *entry
	rec     *wire.Record
	never   bool // nothing shows that it has begun
	roots   []procs.ID
	leader  procs.ID // when it ends, other processes are leftovers; zero if unknown or if the whole tree is the job
	ending  procs.Ending
	timeout procs.Alarm
	saving  procs.Alarm // when its time to save its work ends
	stuck   []int
	left    int // processes that outlived the leader
}

func (w *watch) run() *state.End {
	for first := true; ; first = false {
		ids := w.tree()
		if len(ids) == 0 || len(w.stuck) > 0 {
			return w.ended()
		}
		if first {
			w.reportAlive(ids)
		}
		if !w.ending.On() && w.leader.PID != 0 && !procs.Alive(w.leader) {
			if ids = w.settledTree(); len(ids) == 0 {
				continue
			}
			w.left = len(ids)
			w.ending.Begin(w.rec.Grace)
		}
		if w.ending.On() {
			w.ending.Signal(ids, w.latest())
			if w.ending.Stuck() {
				for _, id := range ids {
					w.stuck = append(w.stuck, id.PID)
				}
				continue
			}
			w.ending.Again(procs.LastLook)
		}
		if !w.wait(ids) {
			return nil
		}
	}
}

// tree lists the living processes. It looks twice before it reports none: a process
// may have forked and exited while the table was read.
func (w *watch) tree() []procs.ID {
	ids := w.l.census.Tree(w.e.UniID, w.roots, time.Now())
	if len(ids) == 0 && len(w.roots) == 0 {
		return w.settledTree() // a process that has just been created does not show its uni_id yet
	}
	if len(ids) == 0 {
		ids = w.l.census.Tree(w.e.UniID, w.roots, time.Now())
	}
	return ids
}

// settledTree waits a moment, then returns the processes that are still alive.
func (w *watch) settledTree() []procs.ID {
	select {
	case <-time.After(procs.SettleTime):
	case <-w.l.stop:
	}
	return w.l.census.Tree(w.e.UniID, w.roots, time.Now())
}

// latest returns the first process of the most recent command.
func (w *watch) latest() procs.ID {
	if len(w.roots) == 0 {
		return procs.ID{}
	}
	return w.roots[len(w.roots)-1]
}

// reportAlive reports that the attempt is alive, unless that has been reported. It also sets the
// timeout, which counts from the attempt's start.
func (w *watch) reportAlive(ids []procs.ID) {
	w.never = false
	if w.rec.Timeout > 0 && w.rec.Boot > 0 && w.rec.Boot <= host.Boottime() {
		w.timeout.Set(w.rec.Boot + w.rec.Timeout)
	}
	if w.rec.Save > 0 {
		w.saving.Set(w.rec.Save)
	}
	main := slices.MinFunc(ids, procs.ID.Compare)
	if len(w.roots) > 0 {
		main = w.roots[0]
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.l.closed {
		return
	}
	w.l.claimAgain(w.e, ids)
	if w.e.reported {
		return
	}
	w.e.reported = true
	w.l.emit(engine.Event{UniID: w.e.UniID, Running: &engine.Running{
		PID: main.PID, PIDStart: main.Start, Adopted: true, Started: w.rec.Started,
	}})
	if w.rec.Behind {
		w.l.emit(engine.Event{UniID: w.e.UniID, Background: &engine.Background{PID: ids[0].PID, Text: procs.Describe(ids)}})
	}
}

// wait waits until something may have changed. It returns false if the engine is closed.
func (w *watch) wait(ids []procs.ID) bool {
	gone := make(chan struct{})
	quit := make(chan struct{})
	if w.leader.PID != 0 && !w.ending.On() { // even if it has just ended, because its leftovers may never end
		ids = []procs.ID{w.leader}
	}
	w.l.Go(func() {
		procs.Await(ids, quit)
		close(gone)
	})
	defer close(quit)
	select {
	case <-gone:
	case <-w.ending.Look():
	case <-w.e.stops.Poked:
		for _, s := range w.e.stops.Take() {
			w.stop(s)
		}
	case <-w.saving.C():
		if w.saving.Due() {
			w.stopAfterSave()
		}
	case <-w.timeout.C():
		if w.timeout.Due() && !w.ending.On() {
			w.timedOut()
		}
	case <-w.l.stop:
		return false
	}
	return true
}

func (w *watch) stop(s *wire.Message) {
	w.recordReason(s.Why)
	grace := w.rec.Grace
	if s.How == engine.Kill {
		grace = 0
	}
	w.ending.Begin(grace)
}

// recordReason stores the reason where a later runner will look for it.
func (w *watch) recordReason(why string) {
	if w.rec.Why != "" {
		return
	}
	w.rec.Why = why
	if f, err := wire.OpenRecord(w.e.Dir, w.rec.Slot); err == nil {
		_ = w.rec.Put(f)
		f.Close()
	}
}

// timedOut handles a timeout the way a keeper does.
func (w *watch) timedOut() {
	n := w.rec.StopSignal()
	var catching []procs.ID
	switch {
	case w.rec.Why == state.WhyTimeout && w.saving.On():
		return // the processes have been signaled
	case n.Signal != "" && !w.saving.On():
		catching = slices.DeleteFunc(w.tree(), func(id procs.ID) bool { return !procs.Catches(id.PID, unix.SignalNum("SIG"+n.Signal)) })
	}
	if len(catching) > 0 {
		w.rec.Save = host.Boottime() + n.Grace
	}
	w.recordReason(state.WhyTimeout)
	acks := make(chan struct{}, 1)
	w.l.mu.Lock()
	if !w.l.closed {
		w.l.emit(engine.Event{UniID: w.e.UniID, Stopping: &engine.Stopping{
			Why: state.WhyTimeout, Ack: func() { engine.Poke(acks) },
		}})
	}
	w.l.mu.Unlock()
	select {
	case <-acks:
	case <-time.After(wire.AckWait):
	case <-w.l.stop:
	}
	if len(catching) == 0 {
		w.ending.Begin(n.Grace)
		return
	}
	for _, id := range catching {
		_ = procs.Signal(id, unix.SignalNum("SIG"+n.Signal))
	}
	w.saving.Set(w.rec.Save)
}

// stopAfterSave stops an attempt whose time to save its work is over.
func (w *watch) stopAfterSave() {
	if w.rec.Why == state.WhyTimeout {
		w.ending.Begin(0)
		return
	}
	w.ending.Begin(w.rec.Grace)
}

// ended returns the attempt's end once its tree is gone. The keeper may have recorded the end
// before it died.
func (w *watch) ended() *state.End {
	if rec, err := w.e.find(); err == nil && rec.State == wire.StateOver {
		return &rec.End
	}
	e := &state.End{ExitCode: -1, Why: w.rec.Why, Started: w.rec.Started, Lost: true, Void: w.never, Stuck: w.stuck, LeftOver: w.left}
	if !w.e.reported {
		return e // it ended before this process looked, perhaps long ago
	}
	if e.At = time.Now(); w.rec.Boot > 0 && w.rec.BootID == host.BootID() {
		e.Elapsed = max(host.Boottime()-w.rec.Boot, 0)
	}
	return e
}
