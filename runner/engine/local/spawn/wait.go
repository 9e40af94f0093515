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

// Peek waits for any child to end, orphans that this process was given too, and
// leaves it to be waited for. It stands in the kernel without holding up a processor:
// the runtime would take that away by force each time, and would look every few
// microseconds whether to.
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

// PeekNow is a child that has ended and has not been waited for; 0 when there is
// none. The error is ECHILD when this process has no children at all.
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

// siginfo is struct siginfo of the kernel, as far as waitid fills it in.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	_                     [27]int32
}
