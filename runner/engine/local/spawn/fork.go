package spawn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The child shares this process's memory and stack until it executes its program
// (vfork). The parent's thread is suspended meanwhile, so errors can simply be left in
// the child struct. os/exec does the same, but has no place to create the marker.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// The parent's thread is suspended until the child has executed its program, which takes
// longer than everything else about a start. To the runtime its goroutine is in a system
// call, so that others can run: entersyscall lets them take the processor when they need
// it, entersyscallblock gives it away.

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// vfork returns twice, first with 0 in the child; a negative result is an errno.
// The kernel writes the child's pid before the child runs.
//
//go:noescape
func vfork(flags uintptr, pid *int32) (ret int)

// vfork3 is vfork through clone3.
//
//go:noescape
func vfork3(args *cloneArgs) (ret int)

// cloneArgs is struct clone_args of linux/sched.h in its first version: flags,
// pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
type cloneArgs [8]uint64

// Indices of the fields that are used.
const (
	cloneFlags = 0
	parentTID  = 3
	exitSignal = 4
)

const (
	vforkFlags   = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT_SETTID
	clearSighand = 0x1_0000_0000 // CLONE_CLEAR_SIGHAND: Linux 5.5
)

// child is everything that a child reads and writes before its program runs.
type child struct {
	path, dir, begun *byte
	argv, envv       []*byte
	files            [3]int
	session          bool
	parent           uintptr // pid of this process
	noFile           uint64
	limit            [2]uint64

	clone cloneArgs
	pid   *int32
	mask  uint64 // signal mask of this thread
	old   bool   // the kernel has no clone3: handlers are still the parent's

	before  unix.Timespec // CLOCK_BOOTTIME before the fork
	now     unix.Timespec
	began   uint64   // the child's start in the kernel's units; 0 if it must be read from stat
	stat    statLine // the child's /proc/self/stat, or the fields that matter, as written to the marker
	statLen int
	stage   Stage
	errno   syscall.Errno
}

var procStat = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 's', 't', 'a', 't', 0}

const (
	atCwd       = ^uintptr(99) // AT_FDCWD
	markerFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC | unix.O_NOFOLLOW
	neverRan    = 127 // exit status of a child that did not get to its program; nobody reads it
)

// fork creates the child, which never returns from here. The child must not call any
// function that allocates, grows the stack or is instrumented.
//
//go:norace
//go:noinline
func fork(c *child) (pid int, errno syscall.Errno) {
	var (
		marker, stat uintptr
		n, parent    uintptr
		fd           int
		e            syscall.Errno
	)
	entersyscall()
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, 0, uintptr(unsafe.Pointer(&c.mask)), unsafe.Sizeof(c.mask), 0, 0)
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&c.before)), 0)
	beforeFork()
	pid = vfork3(&c.clone)
	if pid == -int(unix.ENOSYS) || pid == -int(unix.EPERM) || pid == -int(unix.EINVAL) { // an old kernel, or a container's filter
		c.old = true
		pid = vfork(vforkFlags|uintptr(unix.SIGCHLD), c.pid)
	}
	if pid != 0 {
		// The child used this frame: do nothing in it but return.
		afterFork()
		exitsyscall()
		if pid < 0 {
			return 0, syscall.Errno(-pid)
		}
		return pid, 0
	}
	if c.old {
		afterForkInChild()
	} else {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, unsafe.Sizeof(c.mask), 0, 0)
	}

	if c.session {
		c.stage = Session
		if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
			goto failed
		}
	}

	c.stage = Begin
	if c.began = ticks(c.boottime()); c.began == ticks(c.before) {
		n = c.stat.line(uint64(*c.pid), c.began)
	} else { // the tick changed meanwhile: only the kernel knows
		stat, _, e = syscall.RawSyscall6(unix.SYS_OPENAT, atCwd, uintptr(unsafe.Pointer(&procStat[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			goto failed
		}
		n, _, e = syscall.RawSyscall(unix.SYS_READ, stat, uintptr(unsafe.Pointer(&c.stat[0])), uintptr(len(c.stat)))
		if e != 0 {
			goto failed
		}
		c.began = 0
	}
	c.statLen = int(n)
	// A parent that was killed meanwhile has released whatever it held for this
	// program, so the program must not begin.
	if parent, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); parent != c.parent {
		e = unix.ESRCH
		goto failed
	}
	marker, _, e = syscall.RawSyscall6(unix.SYS_OPENAT, atCwd, uintptr(unsafe.Pointer(c.begun)), markerFlags, 0o644, 0, 0)
	if e != 0 {
		goto failed
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_WRITE, marker, uintptr(unsafe.Pointer(&c.stat[0])), n); e != 0 {
		goto failed
	}

	c.stage = Input
	for fd = 0; fd < len(c.files); fd++ {
		if c.files[fd] == fd {
			_, _, e = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0)
		} else {
			_, _, e = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[fd]), uintptr(fd), 0)
		}
		if e != 0 {
			goto failed
		}
	}

	if c.noFile != 0 {
		c.stage = Limit
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&c.limit)), 0, 0); e != 0 {
			goto failed
		}
		c.limit[0] = c.noFile
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.limit)), 0, 0, 0); e != 0 {
			goto failed
		}
	}

	c.stage = Chdir
	if _, _, e = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); e != 0 {
		goto failed
	}

	c.stage = Exec
	_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.envv[0])))

failed:
	c.errno = e
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, neverRan, 0, 0)
	}
}
