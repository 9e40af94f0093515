package procs

import (
	"time"

	"gpurun/state/host"
)

// longestWait bounds a timer: Go's timers stop while the machine is suspended, so a long
// one is checked from time to time.
const longestWait = time.Minute

// An Alarm fires at a time in CLOCK_BOOTTIME. The zero Alarm is off.
type Alarm struct {
	at time.Duration
	c  <-chan time.Time
}

// Set arms the alarm for a time in CLOCK_BOOTTIME.
func (a *Alarm) Set(at time.Duration) {
	a.at, a.c = at, time.After(min(max(at-host.Boottime(), 0), longestWait))
}

// On reports whether the alarm is set.
func (a *Alarm) On() bool { return a.c != nil }

// C ticks when the alarm should be checked: Due then reports whether it is time.
func (a *Alarm) C() <-chan time.Time { return a.c }

// Due reports whether the time has come, and turns the alarm off if so.
func (a *Alarm) Due() bool {
	if !a.On() {
		return false
	}
	if a.at > host.Boottime() {
		a.Set(a.at)
		return false
	}
	a.Off()
	return true
}

// Off turns the alarm off.
func (a *Alarm) Off() { a.c = nil }

// tick is the resolution of a process's start time and of its CPU time: USER_HZ, see proc(5).
const tick = 10 * time.Millisecond

// nextTick waits for the next clock tick to begin and returns its number. Processes that started
// earlier have a lower Start.
func nextTick() uint64 {
	const spin = 300 * time.Microsecond
	at := (host.Boottime()/tick + 1) * tick
	if d := at - host.Boottime() - spin; d > 0 {
		time.Sleep(d)
	}
	for host.Boottime() < at {
		continue
	}
	return uint64(host.Boottime() / tick)
}
