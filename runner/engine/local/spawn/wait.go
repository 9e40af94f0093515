package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wait waits for any child to end, orphans that this process was given too. It
// stands in the kernel without holding up a processor: the runtime would take that
// away by force each time, and would look every few microseconds whether to.
//
//go:norace
func Wait() (pid int, st unix.WaitStatus, err error) {
	var s int32
	entersyscallblock()
	got, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s)), unix.WALL, 0, 0, 0)
	exitsyscall()
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), unix.WaitStatus(s), nil
}
