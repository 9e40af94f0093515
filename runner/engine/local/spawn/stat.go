package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process's start time is field 22 of its /proc/PID/stat, CLOCK_BOOTTIME in hundredths
// of a second (proc(5), USER_HZ). Having the kernel generate that file costs more than
// the marker itself, so a child looks at the clock instead: if that shows the same tick
// as before the fork, the tick is its start time.

// boottime reads the clock, in the child.
//
//go:norace
//go:nosplit
func (c *child) boottime() unix.Timespec {
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&c.now)), 0)
	return c.now
}

// ticks converts a time to the kernel's start-time units.
//
//go:norace
//go:nosplit
func ticks(t unix.Timespec) uint64 {
	const perSecond, length = 100, 10_000_000
	return uint64(t.Sec)*perSecond + uint64(t.Nsec)/length
}

// A statLine holds a line of /proc/PID/stat.
type statLine [1024]byte

// line writes a line with the fields that markers are read for, and returns its length.
//
//go:norace
//go:nosplit
func (s *statLine) line(pid, start uint64) uintptr {
	const between = " (gpurun) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
	n := s.number(0, pid)
	for i := 0; i < len(between); i++ {
		s[n] = between[i]
		n++
	}
	return s.number(n, start)
}

// number writes n in decimal at a position, and returns the next position.
//
//go:norace
//go:nosplit
func (s *statLine) number(at uintptr, n uint64) uintptr {
	digits := uintptr(1)
	for rest := n; rest >= 10; rest /= 10 {
		digits++
	}
	for i := at + digits; i > at; i-- {
		s[i-1] = '0' + byte(n%10)
		n /= 10
	}
	return at + digits
}
