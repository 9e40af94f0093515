package local

import (
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
	"gpurun/state"
	"gpurun/state/host"
)

// lost handles the loss of a keeper: its attempts are looked for without it.
func (l *Local) lost(r *remote) {
	for _, w := range l.bridge.hold(l.Claims, l.bereft(r)) {
		l.Log.Warn().Msg(w)
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

// recover finds out what happened to an attempt that no keeper has. It may be over and in
// its record; it may never have begun, and is kept from beginning now; or it may be
// alive, with nobody able to get its status. l.mu is held.
func (l *Local) recover(e *entry) {
	e.stops = make(chan stopRequest, 16)
	e.acks = make(chan struct{}, 1)
	for _, s := range e.before[max(0, len(e.before)-cap(e.stops)):] {
		e.stops <- s
	}
	e.before = nil
	l.start(func() {
		ended := l.follow(e)
		if ended == nil {
			return
		}
		l.mu.Lock()
		l.end(e, ended)
		l.mu.Unlock()
	})
}

// follow follows an attempt to its end. It returns nil if the engine is closed first.
func (l *Local) follow(e *entry) *engine.Ended {
	rec, err := readRecord(e.Dir, e.UniID)
	if err == nil && rec.State == recordEnded {
		return rec.ended()
	}
	if rec == nil {
		rec = &record{UniID: e.UniID, Started: e.Started, Grace: e.Grace}
	}
	roots, leader, void := settle(e.Dir, rec.Steps)
	if void {
		return &engine.Ended{ExitCode: -1, Started: rec.Started, At: time.Now(), Lost: true, Void: true}
	}
	w := watch{l: l, e: e, rec: rec}
	if err == nil && !rec.Tree && !rec.Behind {
		w.leader = leader
	}
	if rec.BootID != "" && rec.BootID != host.BootID() {
		return w.ended() // the machine went down with it
	}
	l.mu.Lock()
	e.roots = append(e.roots, roots...)
	w.roots = e.roots
	l.mu.Unlock()
	return w.run()
}

// settle makes sure that no further command of an attempt begins, given the number of
// its commands (0 if unknown). It returns the processes of those that began, and the
// process of the last one if its marker has it. void means that none began.
func settle(dir string, steps int) (roots []procs.ID, last procs.ID, void bool) {
	for i := 0; ; i++ {
		if i == steps && steps > 0 {
			return roots, last, false
		}
		won, err := spawn.Void(marker(dir, i))
		if won || err != nil && !errors.Is(err, fs.ErrExist) {
			return roots, last, won && i == 0
		}
		last = procs.ID{}
		if p, err := spawn.Begun(marker(dir, i)); err == nil && p.PID != 0 {
			roots, last = append(roots, p), p
		}
	}
}

// A watch follows the tree of an attempt without a keeper to its end.
type watch struct {
	l       *Local
	e       *entry
	rec     *record
	roots   []procs.ID
	leader  procs.ID // once it ends, the rest is left behind; zero if unknown or if the whole tree is the job
	ending  ending
	timeout alarm
	stuck   []int
	left    int // processes that outlived the leader
}

func (w *watch) run() *engine.Ended {
	defer w.timeout.off()
	for first := true; ; first = false {
		ids := w.tree()
		if len(ids) == 0 || len(w.stuck) > 0 {
			return w.ended()
		}
		if first {
			w.found(ids)
		}
		if !w.ending.on && w.leader.PID != 0 && !procs.Alive(w.leader) {
			if ids = w.remains(); len(ids) == 0 {
				continue
			}
			w.left = len(ids)
			w.ending.begin(w.rec.Grace)
		}
		if w.ending.on {
			w.ending.signal(ids, w.latest())
			if w.ending.stuck() {
				for _, id := range ids {
					w.stuck = append(w.stuck, id.PID)
				}
				continue
			}
			w.ending.again(lastLook)
		}
		if !w.wait(ids) {
			return nil
		}
	}
}

// tree lists the living processes. It looks twice before it reports none: a process
// may have forked and exited while the table was read.
func (w *watch) tree() []procs.ID {
	ids := w.l.census.tree(w.e.UniID, w.roots, time.Now())
	if len(ids) == 0 {
		ids = w.l.census.tree(w.e.UniID, w.roots, time.Now())
	}
	return ids
}

// remains returns what is still alive a moment after the leader ended.
func (w *watch) remains() []procs.ID {
	select {
	case <-time.After(settleTime):
	case <-w.l.stop:
	}
	return w.tree()
}

// latest returns the first process of the most recent command.
func (w *watch) latest() procs.ID {
	if len(w.roots) == 0 {
		return procs.ID{}
	}
	return w.roots[len(w.roots)-1]
}

// found reports that the attempt is alive, unless that has been reported, and sets its
// timeout, which kept counting.
func (w *watch) found(ids []procs.ID) {
	if w.rec.Timeout > 0 && w.rec.Boot > 0 && w.rec.Boot <= host.Boottime() {
		w.timeout.set(w.rec.Boot + w.rec.Timeout)
	}
	main := ids[0]
	for _, id := range ids {
		if id.Start < main.Start || id.Start == main.Start && id.PID < main.PID {
			main = id
		}
	}
	if len(w.roots) > 0 {
		main = w.roots[0]
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.l.closed {
		return
	}
	w.l.claimAgain(w.e, ids)
	if w.e.told {
		return
	}
	w.e.told = true
	w.l.emit(engine.Event{UniID: w.e.UniID, Running: &engine.Running{
		PID: main.PID, PIDStart: main.Start, Adopted: true, Started: w.rec.Started,
	}})
	if w.rec.Behind {
		w.l.emit(engine.Event{UniID: w.e.UniID, Background: &engine.Background{PID: ids[0].PID, Text: described(ids)}})
	}
}

// wait returns when something may have changed, or false when the engine is closed.
func (w *watch) wait(ids []procs.ID) bool {
	gone := make(chan struct{})
	quit := make(chan struct{})
	if w.leader.PID != 0 && procs.Alive(w.leader) {
		ids = []procs.ID{w.leader}
	}
	plain(w.l.Go)(func() {
		awaitAll(ids, quit)
		close(gone)
	})
	defer close(quit)
	select {
	case <-gone:
	case <-w.ending.look():
	case s := <-w.e.stops:
		w.stop(s)
	case <-w.timeout.C():
		if w.timeout.due() && !w.ending.on {
			w.timedOut()
		}
	case <-w.l.stop:
		return false
	}
	return true
}

// awaitAll returns when all these processes have ended, or at quit.
func awaitAll(ids []procs.ID, quit <-chan struct{}) {
	const look = time.Second
	for _, id := range ids {
		for procs.Alive(id) {
			if !awaitOne(id, look/4) {
				select {
				case <-quit:
					return
				case <-time.After(look):
				}
			}
			select {
			case <-quit:
				return
			default:
			}
		}
	}
}

// awaitOne waits up to d for one process to end. It returns false if the kernel does
// not support that.
func awaitOne(id procs.ID, d time.Duration) bool {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(d.Milliseconds()))
	return err == nil || err == unix.EINTR
}

func (w *watch) stop(s stopRequest) {
	w.because(s.why)
	grace := w.rec.Grace
	if s.how == engine.Kill {
		grace = 0
	}
	w.ending.begin(grace)
}

// because stores the reason where a later runner will look for it.
func (w *watch) because(why string) {
	if w.rec.Why != "" {
		return
	}
	w.rec.Why = why
	if f, err := openRecord(w.e.Dir); err == nil {
		_ = f.put(w.rec)
		f.close()
	}
}

func (w *watch) timedOut() {
	w.because(state.WhyTimeout)
	w.l.mu.Lock()
	if !w.l.closed {
		w.l.emit(engine.Event{UniID: w.e.UniID, Stopping: &engine.Stopping{
			Why: state.WhyTimeout, Ack: func() { poke(w.e.acks) },
		}})
	}
	w.l.mu.Unlock()
	select {
	case <-w.e.acks:
	case <-time.After(ackWait):
	case <-w.l.stop:
	}
	w.ending.begin(w.rec.Grace)
}

// ended returns the end once the tree is gone. The keeper may have written it before it died.
func (w *watch) ended() *engine.Ended {
	if rec, err := readRecord(w.e.Dir, w.e.UniID); err == nil && rec.State == recordEnded {
		return rec.ended()
	}
	e := &engine.Ended{
		ExitCode: -1, Why: w.rec.Why, Started: w.rec.Started, At: time.Now(), Lost: true, Stuck: w.stuck, LeftOver: w.left,
	}
	if w.rec.Boot > 0 && w.rec.BootID == host.BootID() {
		e.Elapsed = max(host.Boottime()-w.rec.Boot, 0)
	}
	return e
}
