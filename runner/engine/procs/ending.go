package procs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// How long to wait for processes.
const (
	SettleTime = 100 * time.Millisecond // for processes to finish their output after a job has ended
	stuckAfter = 30 * time.Second       // after SIGKILL; no signal can end a process that lives longer
	TreeLook   = time.Second            // between looks at a tree that may run for long

	firstLook = 2 * time.Millisecond   // between looks at a tree that is being ended; doubles each time,
	LastLook  = 250 * time.Millisecond // up to this
)

// An Ending tracks the signals sent to end a process tree. The zero Ending has not begun.
type Ending struct {
	on       bool
	killed   bool          // SIGKILL was sent
	killAt   time.Duration // CLOCK_BOOTTIME
	killedAt time.Duration
	sent     map[ID]notice
	first    uint64 // clock tick of the first signals, in the kernel's start-time units
	pause    time.Duration
	look     <-chan time.Time
}

// A notice records a signal sent to a process, and the program that the process was running then.
// If a child receives the signal between fork and exec, the handler inherited from its parent runs
// and the signal is lost, so it must be sent again. The program is identified by its place in
// memory, because a process may change its command line, and reading the command line of a process
// that hangs in the kernel blocks.
type notice struct {
	sig             unix.Signal
	codeEnd, envEnd uint64
}

// On reports whether the ending has begun.
func (e *Ending) On() bool { return e.on }

// Killed reports whether SIGKILL was sent.
func (e *Ending) Killed() bool { return e.killed }

// Look ticks when it is time to look at the tree again.
func (e *Ending) Look() <-chan time.Time { return e.look }

// Again schedules the next look, with a longer pause each time.
func (e *Ending) Again(longest time.Duration) {
	e.pause = min(max(2*e.pause, firstLook), longest)
	e.look = time.After(e.pause)
}

// Begin sets when SIGKILL is due. Later calls can only bring it forward.
func (e *Ending) Begin(grace time.Duration) {
	at := host.Boottime() + grace
	if !e.on || at < e.killAt {
		e.killAt = at
	}
	if !e.on {
		e.on, e.sent, e.pause = true, map[ID]notice{}, 0
	}
}

// Signal sends SIGTERM, or SIGKILL once it is due, to the processes that have not received it
// since they executed their current program.
func (e *Ending) Signal(ids []ID, first ID) {
	now := host.Boottime()
	sig := unix.SIGTERM
	if now >= e.killAt {
		sig = unix.SIGKILL
		if !e.killed {
			e.killed, e.killedAt = true, now
		}
	}
	// A shell must get the signal before its command does: if it saw the command die, it would run
	// the next one.
	slices.SortFunc(ids, func(x, y ID) int {
		if x == first || y == first {
			return map[bool]int{true: -1, false: 1}[x == first]
		}
		return x.Compare(y)
	})
	if len(e.sent) == 0 && sig == unix.SIGTERM {
		e.first = nextTick()
	}
	for _, id := range ids {
		s, _ := host.StatOf(id.PID)
		n := notice{sig, s.CodeEnd, s.EnvEnd}
		if had, ok := e.sent[id]; had == n || sig == unix.SIGTERM && !ok && id.Start >= e.first && e.handled(id.PID) {
			continue
		}
		e.sent[id] = n
		_ = Signal(id, sig)
		if sig == unix.SIGTERM {
			_ = Signal(id, unix.SIGCONT)
		}
	}
}

// Kills reports whether SIGKILL is due.
func (e *Ending) Kills() bool { return e.on && host.Boottime() >= e.killAt }

// handled reports whether a process descends from a living one that was sent SIGTERM. If the
// process started after the first signals, a signal handler started it, perhaps to save work, and
// it may live until the grace period is over. If it started before, it merely slipped through and
// must be signaled: a shell runs its handler only once its command has ended.
func (e *Ending) handled(pid int) bool {
	for {
		p, ok := One(pid)
		if !ok || p.Parent <= 1 {
			return false
		}
		pid = p.Parent
		for id := range e.sent {
			if id.PID == pid && Alive(id) {
				return true
			}
		}
	}
}

// Stuck reports whether SIGKILL has had long enough to work.
func (e *Ending) Stuck() bool { return e.killed && host.Boottime() > e.killedAt+stuckAfter }
