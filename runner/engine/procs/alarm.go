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
	at    time.Duration
	timer *time.Timer
}

// Set arms the alarm for a boottime.
func (a *Alarm) Set(at time.Duration) {
	a.Off()
	a.at = at
	a.timer = time.NewTimer(min(max(at-host.Boottime(), 0), longestWait))
}

// On reports whether the alarm is set.
func (a *Alarm) On() bool { return a.timer != nil }

// C ticks when the alarm should be checked: Due then reports whether it is time.
func (a *Alarm) C() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

// Due reports whether the time has come, and turns the alarm off if so.
func (a *Alarm) Due() bool {
	if a.timer == nil {
		return false
	}
	left := a.at - host.Boottime()
	if left > 0 {
		a.timer.Reset(min(left, longestWait))
		return false
	}
	a.Off()
	return true
}

// Off turns the alarm off.
func (a *Alarm) Off() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// tick is the resolution of a process's start time and of its CPU time: USER_HZ, see proc(5).
const tick = 10 * time.Millisecond

// nextTick waits for the next clock tick to begin and returns its number: processes that
// started earlier have a lower one.
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
