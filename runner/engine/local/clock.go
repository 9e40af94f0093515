package local

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boottime returns CLOCK_BOOTTIME, which keeps counting during suspend and is never set
// back.
func boottime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// bootID identifies this boot of the machine. Pids and boottime values are meaningless
// in any other.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// longestWait bounds a timer: Go's timers stop while the machine is suspended, so a long
// one is checked from time to time.
const longestWait = time.Minute

// An alarm fires at a time in CLOCK_BOOTTIME. The zero alarm is off.
type alarm struct {
	at    time.Duration
	timer *time.Timer
}

// set arms the alarm for a boottime.
func (a *alarm) set(at time.Duration) {
	a.off()
	a.at = at
	a.timer = time.NewTimer(min(max(at-boottime(), 0), longestWait))
}

// C ticks when the alarm should be checked: due then reports whether it is time.
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

// tick is the resolution of a process's start time: USER_HZ, see proc(5).
const tick = 10 * time.Millisecond

// nextTick waits for the next clock tick to begin and returns its number: processes that
// started earlier have a lower one.
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
