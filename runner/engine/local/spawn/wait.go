package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NoChildSignals keeps the kernel from sending this process SIGCHLD: the runtime would
// receive and drop each one, which costs as much as waiting for the child. Waiters are
// woken anyway. Package os/signal cannot do this: ignoring the signal would leave nothing
// to wait for. If a seccomp filter forbids it, everything still works.
func NoChildSignals() {
	action := [4]uint64{} // struct sigaction of the kernel: SIG_DFL, no flags, no restorer, an empty mask
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// Peek waits for any child to end, including adopted orphans, and leaves it to be reaped.
// It blocks in the kernel without holding a processor, which the runtime would otherwise
// have to take away each time, after checking every few microseconds.
//
//go:norace
func Peek() (pid int, err error) {
	var info siginfo
	entersyscallblock()
	_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), peekFlags, 0, 0)
	exitsyscall()
	if errno != 0 {
		return 0, errno
	}
	return int(info.pid), nil
}

// PeekNow returns a child that has ended and has not been reaped, or 0 if there is none.
// The error is ECHILD if this process has no children at all.
func PeekNow() (pid int, err error) {
	var info siginfo
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), peekFlags|unix.WNOHANG, 0, 0)
		switch errno {
		case 0:
			return int(info.pid), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

const peekFlags = unix.WEXITED | unix.WNOWAIT | unix.WALL

// siginfo is the part of the kernel's struct siginfo that waitid fills in.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	_                     [27]int32
}
