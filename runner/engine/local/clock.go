package local

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boottime is CLOCK_BOOTTIME: it goes on in suspend and no one sets it back.
func boottime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// bootID names this boot of the machine: pids and times of boottime mean nothing
// after it.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// longestWait bounds a timer: Go's stand still while the machine is suspended, so
// a long one is looked at again from time to time.
const longestWait = time.Minute

// An alarm fires at a time in CLOCK_BOOTTIME. The zero alarm is off.
type alarm struct {
	at    time.Duration
	timer *time.Timer
}

// set arms the alarm for a time of boottime.
func (a *alarm) set(at time.Duration) {
	a.off()
	a.at = at
	a.timer = time.NewTimer(min(max(at-boottime(), 0), longestWait))
}

// C ticks when the alarm should be looked at: then due says whether it is time.
func (a *alarm) C() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

// due reports whether the time has come, and turns the alarm off if so.
func (a *alarm) due() bool {
	if a.timer == nil {
		return false
	}
	left := a.at - boottime()
	if left > 0 {
		a.timer.Reset(min(left, longestWait))
		return false
	}
	a.off()
	return true
}

func (a *alarm) off() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// tick is the resolution of a process's start time; proc(5), USER_HZ.
const tick = 10 * time.Millisecond

// nextTick returns at the beginning of a clock tick, and its number: what started
// before has a lower one.
func nextTick() uint64 {
	const spin = 300 * time.Microsecond
	at := (boottime()/tick + 1) * tick
	if d := at - boottime() - spin; d > 0 {
		time.Sleep(d)
	}
	for boottime() < at {
		continue
	}
	return uint64(boottime() / tick)
}
