package disk

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// lockJobFile locks the job file itself: whatever becomes of the state folder, and
// whichever folder a second run uses, one job file is not run beside itself. What
// cannot be locked (no file, a pipe, a file system that wants the right to write)
// goes without: nil. Another user may hold this lock on any file that he can read,
// and so keeps nobody out; he may also be running a job file that people share.
func lockJobFile(jobFile string) (*os.File, error) {
	f, err := os.OpenFile(jobFile, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, nil
	}
	pid := 0
	got, err := tryLock(f, func() bool {
		pid = host.LockHolder(&st)
		return pid != 0 && !host.Alive(pid)
	})
	switch {
	case got:
		return f, nil
	case err != nil || inherited(&st) || foreign(pid):
		f.Close()
		return nil, nil
	}
	f.Close()
	return nil, &LockedError{File: jobFile, PID: pid, Host: hostname()}
}

// foreign reports whether a process belongs to another user.
func foreign(pid int) bool {
	uid, ok := host.Owner(pid)
	return pid != 0 && ok && uid != os.Geteuid() && uid != 0
}

// inherited reports whether the lock is one that this process was started under:
// "flock jobs.yaml gpurun jobs.yaml" holds it in an open file of its own.
func inherited(st *unix.Stat_t) bool {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return false
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		var at unix.Stat_t
		if err != nil || unix.Fstat(fd, &at) != nil || at.Dev != st.Dev || at.Ino != st.Ino {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // ours
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			return true
		}
	}
	return false
}
