package disk

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// lockJobFile locks the job file itself, so one job file never runs twice at once,
// even if its state folder is removed or a second run uses another. It returns nil
// for what cannot be locked: no file, a pipe, a file system that requires write
// access. A lock held by another user is ignored: anybody who can read the file can
// lock it, and it may be a shared job file that both are running.
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
	return nil, &LockedError{File: jobFile, PID: pid, Host: host.Name(), Elsewhere: true}
}

// foreign reports whether a process belongs to another user.
func foreign(pid int) bool {
	uid, ok := host.Owner(pid)
	return pid != 0 && ok && uid != os.Geteuid() && uid != 0
}

// inherited reports whether this process inherited the lock, as under
// "flock jobs.yaml gpurun jobs.yaml", which holds it in its own open file.
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
