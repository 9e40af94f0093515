package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NoChildSignals has the kernel send this process no SIGCHLD: the runtime would take
// each and drop it, which costs as much as waiting for the child. Who waits is woken
// all the same. Package os/signal cannot do it: to ignore the signal would leave
// nothing to wait for. Without it, where a filter forbids it, everything works too.
func NoChildSignals() {
	action := [4]uint64{} // struct sigaction of the kernel: SIG_DFL, no flags, no restorer, an empty mask
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

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
