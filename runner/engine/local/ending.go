package local

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
)

const (
	settleTime = 100 * time.Millisecond // for what only finishes its output when a job has ended
	stuckAfter = 30 * time.Second       // after SIGKILL: nothing will end this any more
	treeLook   = time.Second            // between two looks at a tree that may take its time
)

// An ending is how far the end of a tree has been forced. The zero one has not
// begun.
type ending struct {
	on       bool
	killed   bool          // SIGKILL was sent
	killAt   time.Duration // CLOCK_BOOTTIME
	killedAt time.Duration
	sent     map[procs.ID]notice
	first    uint64 // clock tick of the first signals, as the kernel counts starts
	pause    time.Duration
	timer    *time.Timer
}

// A notice is what a process was sent, and what it was then. A child that took
// the signal between fork and exec, with its parent's handler, has lost it.
type notice struct {
	sig     unix.Signal
	cmdline string
}

// look ticks when the tree is to be looked at again.
func (e *ending) look() <-chan time.Time {
	if e.timer == nil {
		return nil
	}
	return e.timer.C
}

// again sets the next look, later each time.
func (e *ending) again(longest time.Duration) {
	e.pause = min(max(2*e.pause, firstLook), longest)
	if e.timer == nil {
		e.timer = time.NewTimer(e.pause)
		return
	}
	e.timer.Reset(e.pause)
}

// begin sets when SIGKILL is due. A later one may only bring it forward.
func (e *ending) begin(grace time.Duration) {
	at := boottime() + grace
	if !e.on || at < e.killAt {
		e.killAt = at
	}
	if !e.on {
		e.on, e.sent, e.pause = true, map[procs.ID]notice{}, 0
	}
}

// signal sends what is due to those that have not had it yet, as what they are now.
func (e *ending) signal(ids []procs.ID, first procs.ID) {
	now := boottime()
	sig := unix.SIGTERM
	if now >= e.killAt {
		sig = unix.SIGKILL
		if !e.killed {
			e.killed, e.killedAt = true, now
		}
	}
	// A shell that sees its command die before itself would run the next one.
	slices.SortFunc(ids, func(x, y procs.ID) int {
		if x == first || y == first {
			return map[bool]int{true: -1, false: 1}[x == first]
		}
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.PID, y.PID))
	})
	if len(e.sent) == 0 && sig == unix.SIGTERM {
		e.first = nextTick()
	}
	for _, id := range ids {
		n := notice{sig, procs.Cmdline(id.PID)}
		if had, ok := e.sent[id]; had == n || sig == unix.SIGTERM && !ok && id.Start >= e.first && e.handled(id.PID) {
			continue
		}
		e.sent[id] = n
		_ = procs.Signal(id, sig)
		if sig == unix.SIGTERM {
			_ = procs.Signal(id, unix.SIGCONT)
		}
	}
}

// kills reports whether SIGKILL is due.
func (e *ending) kills() bool { return e.on && boottime() >= e.killAt }

// handled reports whether a process hangs on one that has had its SIGTERM and
// lives. If it came after that it is what a handler runs, to save the work
// perhaps, and is not to be ended before the grace is over. If it came before,
// it had only slipped through: a shell's handler waits for it.
func (e *ending) handled(pid int) bool {
	for {
		p, ok := procs.One(pid)
		if !ok || p.Parent <= 1 {
			return false
		}
		pid = p.Parent
		for id := range e.sent {
			if id.PID == pid && procs.Alive(id) {
				return true
			}
		}
	}
}

// stuck reports whether SIGKILL has had its time.
func (e *ending) stuck() bool { return e.killed && boottime() > e.killedAt+stuckAfter }

// stop begins the end of the attempt, or hastens it.
func (a *attempt) stop(why string, how engine.How) {
	a.because(why)
	grace := a.Grace
	if how == engine.Kill {
		grace = 0
	}
	a.ending.begin(grace)
	if a.leader.PID != 0 {
		a.press()
	}
}

// press signals whatever lives of the tree now, and says when to look again:
// soon, since a process that forks may have slipped through.
func (a *attempt) press() {
	var ids []procs.ID
	if a.ending.kills() {
		ids = a.k.frozen(a)
	} else {
		ids = a.k.members(a)
	}
	a.ending.signal(ids, a.leader)
	if a.ending.stuck() {
		for _, id := range ids {
			a.rec.Stuck = append(a.rec.Stuck, id.PID)
		}
	}
	a.ending.again(lastLook)
}

// idle waits for something that makes another look worth while.
func (a *attempt) idle() {
	select {
	case <-a.kicks:
	case <-a.stops:
		a.takeStops()
	case <-a.timeout.C():
		if a.timeout.due() {
			a.timedOut()
		}
	case <-a.ending.look():
	}
}
