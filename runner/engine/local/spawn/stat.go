package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// When a process started is field 22 of its /proc/PID/stat, CLOCK_BOOTTIME in
// hundredths of a second (proc(5), USER_HZ). To have the kernel make that file costs
// more than the marker itself, so that a child looks at the clock: if it shows the
// same tick as before the fork, this is the one.

// boottime reads the clock. It is called in the child.
//
//go:norace
//go:nosplit
func (c *child) boottime() unix.Timespec {
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&c.now)), 0)
	return c.now
}

// ticks is a time as the kernel counts starts.
//
//go:norace
//go:nosplit
func ticks(t unix.Timespec) uint64 {
	const perSecond, length = 100, 10_000_000
	return uint64(t.Sec)*perSecond + uint64(t.Nsec)/length
}

// A statLine holds a line of /proc/PID/stat.
type statLine [1024]byte

// line writes one with the fields that a marker is read for, and returns its length.
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

// number writes n in decimal at a place, and returns the next place.
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
