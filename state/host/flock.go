package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Flock locks a file with LOCK_SH or LOCK_EX, waiting at most limit. Its error names the process
// that holds the lock. On a file system without locks, it succeeds without locking.
func Flock(f *os.File, how int, limit time.Duration) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil || NoLocks(err):
			return nil
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return os.NewSyscallError("flock", err)
		case time.Since(began) >= limit:
			return heldError(f, limit)
		}
	}
}

// NoLocks reports whether err means that the file system does not support flock.
func NoLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

// A HeldError reports that another process held a lock for the whole waiting time.
type HeldError struct {
	Name   string // of the lock file
	Holder string // "process 4711 of alice"
	Limit  time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is still locked by %s after %v", e.Name, e.Holder, e.Limit)
}

// heldError returns a HeldError that names the process that holds a flock on an open file.
func heldError(f *os.File, limit time.Duration) error {
	e := &HeldError{filepath.Base(f.Name()), "a process not visible from here", limit}
	pid := LockHolder(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if uid, known := Owner(pid); pid != 0 && known {
		e.Holder = fmt.Sprintf("process %d of %s", pid, cmp.Or(Login(uid), fmt.Sprintf("uid %d", uid)))
	}
	return e
}

// LockHolder returns the PID of the process that holds a flock on a file. It returns 0 if there is
// none, or if the process is not visible from this PID namespace.
func LockHolder(path string) int {
	dev, ino := lockID(path)
	return holder(func(l lock) bool { return l.on(dev) && l.ino == ino })
}

// UserLock returns the PID of one of a user's processes that holds a flock on any file of a folder's
// file system, or 0 if there is none.
func UserLock(dir string, uid int) int {
	dev, _ := lockID(dir)
	return holder(func(l lock) bool {
		if !l.on(dev) {
			return false
		}
		owner, known := Owner(l.pid)
		return known && HostUID(owner) == uid
	})
}

// lockID returns the device and inode under which /proc/locks shows the locks of a file. It does not
// query the file system. Where stat invents a device for each subvolume, as on btrfs, only the list
// of mounts contains the device that the kernel uses.
func lockID(path string) (dev, ino uint64) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &x); err != nil { // old kernels and sandboxes have no statx
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return 0, 0
		}
		return st.Dev, st.Ino
	}
	if x.Dev_major == 0 && x.Mask&unix.STATX_MNT_ID != 0 {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(mounts)) {
			var id, parent uint64
			var major, minor uint32
			if n, _ := fmt.Sscanf(line, "%d %d %d:%d", &id, &parent, &major, &minor); n == 4 && id == x.Mnt_id {
				return unix.Mkdev(major, minor), x.Ino
			}
		}
	}
	return unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino
}

// scans is how often /proc/locks is read before a lock counts as absent. The kernel returns at most
// a page at a time, and if a lock is released between two pages, another lock may be missed.
const scans = 20

// maxLockLine is more than the length of a line of /proc/locks. If less space than this is left in a
// page, the kernel may have stopped before the last lock.
const maxLockLine = 256

// holder returns the PID of the process that holds the first matching lock, or 0 if none matches.
func holder(wanted func(lock) bool) int {
	for range scans {
		text, whole := readLocks()
		for line := range bytes.Lines(text) {
			if l, ok := parseLock(line); ok && wanted(l) {
				return l.pid
			}
		}
		if whole {
			break
		}
	}
	return 0
}

// readLocks returns the content of /proc/locks, and whether it was read at one moment.
func readLocks() (text []byte, whole bool) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil, true
	}
	defer f.Close()
	page := make([]byte, 64<<10)
	for reads := 0; ; reads++ {
		n, err := f.Read(page)
		if err != nil || n == 0 {
			return text, reads <= 1 && len(text) < os.Getpagesize()-maxLockLine
		}
		text = append(text, page[:n]...)
	}
}

// A lock is a flock that a process holds.
type lock struct {
	pid          int
	major, minor uint32
	ino          uint64
}

func (l lock) on(dev uint64) bool { return l.major == unix.Major(dev) && l.minor == unix.Minor(dev) }

// parseLock parses one line of /proc/locks, proc_locks(5). ok is false for other kinds of locks,
// waiting processes, and holders that are not visible from here.
func parseLock(line []byte) (l lock, ok bool) {
	field := bytes.Fields(line)
	if len(field) < 6 || string(field[1]) != "FLOCK" {
		return l, false
	}
	id := bytes.Split(field[5], []byte(":"))
	if len(id) != 3 {
		return l, false
	}
	major, err1 := strconv.ParseUint(string(id[0]), 16, 32)
	minor, err2 := strconv.ParseUint(string(id[1]), 16, 32)
	ino, err3 := strconv.ParseUint(string(id[2]), 10, 64)
	pid, err4 := strconv.Atoi(string(field[4]))
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || pid <= 0 {
		return l, false
	}
	return lock{pid, uint32(major), uint32(minor), ino}, true
}
