package local

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
	"gpurun/state/host"
)

const (
	settleTime = 100 * time.Millisecond // for processes that are just finishing their output when a job has ended
	stuckAfter = 30 * time.Second       // after SIGKILL, when nothing will end a process any more
	treeLook   = time.Second            // between looks at a tree that may take its time
)

// An ending tracks how far the end of a tree has been forced. The zero ending has not
// begun.
type ending struct {
	on       bool
	killed   bool          // SIGKILL was sent
	killAt   time.Duration // CLOCK_BOOTTIME
	killedAt time.Duration
	sent     map[procs.ID]notice
	first    uint64 // clock tick of the first signals, in the kernel's start-time units
	pause    time.Duration
	timer    *time.Timer
}

// A notice is the signal a process was sent and what it was running then. A child that
// received it between fork and exec, with its parent's handler, has lost it.
type notice struct {
	sig     unix.Signal
	cmdline string
}

// look ticks when it is time to look at the tree again.
func (e *ending) look() <-chan time.Time {
	if e.timer == nil {
		return nil
	}
	return e.timer.C
}

// again schedules the next look, with a longer pause each time.
func (e *ending) again(longest time.Duration) {
	e.pause = min(max(2*e.pause, firstLook), longest)
	if e.timer == nil {
		e.timer = time.NewTimer(e.pause)
		return
	}
	e.timer.Reset(e.pause)
}

// begin sets when SIGKILL is due. Later calls can only bring it forward.
func (e *ending) begin(grace time.Duration) {
	at := host.Boottime() + grace
	if !e.on || at < e.killAt {
		e.killAt = at
	}
	if !e.on {
		e.on, e.sent, e.pause = true, map[procs.ID]notice{}, 0
	}
}

// signal sends the signal that is due to the processes that have not had it yet as what
// they are now.
func (e *ending) signal(ids []procs.ID, first procs.ID) {
	now := host.Boottime()
	sig := unix.SIGTERM
	if now >= e.killAt {
		sig = unix.SIGKILL
		if !e.killed {
			e.killed, e.killedAt = true, now
		}
	}
	// A shell that saw its command die first would run the next one.
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
func (e *ending) kills() bool { return e.on && host.Boottime() >= e.killAt }

// handled reports whether a process descends from one that received its SIGTERM and is
// still alive. If the process started after that, a signal handler runs it, perhaps to
// save work, and it may live until the grace period is over. If it started before, it
// merely slipped through: a shell's handler waits for it.
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

// stuck reports whether SIGKILL has had long enough to work.
func (e *ending) stuck() bool { return e.killed && host.Boottime() > e.killedAt+stuckAfter }

// stop begins to end the attempt, or speeds it up.
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

// press signals the processes of the tree that are alive now, and schedules another look
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

// idle waits for a reason to look again.
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
