package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A LockedError reports that another gpurun is running the job file.
type LockedError struct {
	File      string // job file
	PID       int    // 0 when unknown
	Host      string
	Since     time.Time
	Elsewhere bool // it is locked through another state folder or another name of the file
	Space     bool // PID belongs to another PID namespace, such as a container's
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is already running as process %d on %s (started %s)", e.File, e.PID, e.Host, e.Since.Local().Format(time.DateTime))
}

// A holder is the content of a lock file, and identifies the process that holds the lock.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Boot  string    `json:"boot_id"`
	PIDNS string    `json:"pid_ns,omitempty"`
	Since time.Time `json:"since"`
}

// foreign reports whether h is on this host but its PID is not valid in this PID namespace.
func (h holder) foreign() bool {
	here := host.PIDNamespace()
	return h.Boot == host.BootID() && h.PIDNS != "" && here != "" && h.PIDNS != here
}

// takeLock locks a batch folder for this process. The kernel releases the lock when the process
// ends. The file's content is only for messages, unless the file system has no locks. In that case,
// the process named in the file counts as the holder, unless it is known to have ended.
func takeLock(jobFile, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	for {
		f, err := host.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, in(dir, err)
		}
		err = lockFile(f, jobFile)
		if err == nil && !sameFile(f, path) {
			f.Close() // someone removed or replaced it before it was locked
			continue
		}
		if err == nil {
			err = writeHolder(f)
		}
		if err == nil {
			return f, nil
		}
		f.Close()
		if errors.As(err, new(*LockedError)) {
			return nil, err
		}
		return nil, in(dir, err)
	}
}

// lockFile locks an open lock file.
func lockFile(f *os.File, jobFile string) error {
	got, err := tryLock(f, func() bool { h := readHolder(f); return h.PID != 0 && h.dead(false) })
	was := readHolder(f)
	switch {
	case host.NoLocks(err):
		if was.PID == 0 || was.dead(false) {
			return nil
		}
	case err != nil:
		return os.NewSyscallError("flock", err)
	case got:
		return nil
	}
	if was.PID == 0 { // a run writes its identity; the kernel identifies other holders
		return host.Flock(f, unix.LOCK_EX, 0)
	}
	return &LockedError{File: jobFile, PID: was.PID, Host: was.Host, Since: was.Since, Space: was.foreign()}
}

// sameFile reports whether path still refers to an open file.
func sameFile(f *os.File, path string) bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && unix.Lstat(path, &at) == nil && st.Dev == at.Dev && st.Ino == at.Ino
}

// These limit how long tryLock retries.
const (
	lockLook = 10 * time.Millisecond
	askWait  = 50 * time.Millisecond // a check whether a run is alive holds a shared lock for microseconds
	deadWait = 2 * time.Second       // a child of a killed run holds the lock until it execs
)

// tryLock retries briefly, or longer if the run that took the lock is dead.
func tryLock(f *os.File, dead func() bool) (bool, error) {
	for began := time.Now(); ; time.Sleep(lockLook) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return true, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return false, err
		}
		waited := time.Since(began)
		if waited > deadWait || waited > askWait && !dead() {
			return false, nil
		}
	}
}

// dead reports whether h was a process on this host that has ended. It is false for processes that
// cannot be seen from here. If self is set, this process may be the holder; otherwise, a holder with
// this process's PID must be an earlier process that has ended.
func (h holder) dead(self bool) bool {
	switch {
	case h.Host != host.Name() || h.foreign():
		return false
	case h.PID == os.Getpid() && self:
		return false
	}
	return h.Boot != host.BootID() || h.PID == os.Getpid() || !host.Alive(h.PID)
}

func readHolder(f *os.File) holder {
	var h holder
	b := make([]byte, holderSize)
	n, _ := f.ReadAt(b, 0)
	_ = json.Unmarshal(b[:n], &h) // fails while the holder is writing; then h is empty
	return h
}

// holderSize is the fixed length of a lock file. Rewriting it in place works even on a full disk.
const holderSize = 512

// writeHolder writes this process's identity to its lock file.
func writeHolder(f *os.File) error {
	b, err := json.Marshal(holder{PID: os.Getpid(), Host: host.Name(), Boot: host.BootID(), PIDNS: host.PIDNamespace(), Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	padded := bytes.Repeat([]byte{' '}, holderSize)
	padded[copy(padded, b)] = '\n'
	_, err = f.WriteAt(padded, 0)
	return err
}

// editsWait is the maximum time to wait for another gpurun that is changing a job file.
const editsWait = 20 * time.Second

// LockEdits waits until no other gpurun is changing the text of a job file, and keeps others from
// changing it until unlock is called. On a file system without locks, it does nothing.
func LockEdits(jobFile, stateDir string) (unlock func(), err error) {
	dir := Folder(jobFile, stateDir)
	if err := prepare(dir, jobFile); err != nil {
		return nil, err
	}
	f, err := host.OpenOwn(filepath.Join(dir, editsName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = host.Flock(f, unix.LOCK_EX, editsWait)
	}
	if err != nil {
		f.Close()
		return nil, in(dir, err)
	}
	return func() { f.Close() }, nil
}

// clearHolder erases the identity from a lock file before it is released.
func clearHolder(f *os.File) {
	_, _ = f.WriteAt(bytes.Repeat([]byte{' '}, holderSize), 0)
}

// lockJobFile locks the job file itself, so that it never runs twice at the same time, even if its
// state folder is removed or a second run uses another folder. It returns nil if the file cannot be
// locked: it is missing, a pipe, or on a file system that requires write access. It ignores a lock
// held by another user: anyone who can read the file can lock it, and both users may be running a
// shared job file.
func lockJobFile(jobFile string) (*os.File, error) {
	f, info, err := host.OpenRegular(jobFile)
	if err != nil {
		return nil, nil
	}
	st := info.Sys().(*syscall.Stat_t)
	pid := 0
	got, err := tryLock(f, func() bool {
		pid = host.LockHolder(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		return pid != 0 && !host.Alive(pid)
	})
	switch {
	case got:
		return f, nil
	case err != nil || inherited(st) || foreign(pid):
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

// inherited reports whether this process inherited the lock. "flock jobs.yaml gpurun jobs.yaml"
// passes it on as an open file.
func inherited(st *syscall.Stat_t) bool {
	for _, fd := range host.InheritedFDs() {
		var at unix.Stat_t
		if unix.Fstat(fd, &at) == nil && at.Dev == st.Dev && at.Ino == st.Ino && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			return true
		}
	}
	return false
}

// A Runner is the gpurun process that is running a job file.
type Runner struct {
	PID   int       `json:"pid"` // 0 if its lock file does not name it
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Here  bool      `json:"-"` // on this host
	UID   int       `json:"-"` // owner of the process; -1 if unknown
}

// Running returns the process that is running a job file, judging by its lock. A run that is
// suspended, hung or owned by another user counts as alive. An error means that it is unknown whether
// a run is alive. If alive is false but r has a PID, the run was killed, because a run that ends
// normally erases its identity.
func Running(jobFile, stateDir string) (r Runner, alive bool, err error) {
	path := filepath.Join(Folder(jobFile, stateDir), lockName)
	f, err := host.OpenOwn(path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return Runner{}, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return runningFromLocks(path)
	}
	if err != nil {
		return Runner{}, false, err
	}
	defer f.Close()
	h := readHolder(f)
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case err == nil:
		return h.runner(path), false, nil
	case err == unix.EWOULDBLOCK: // another process holds it
	case host.NoLocks(err):
		if h.PID == 0 || h.dead(true) {
			return Runner{}, false, nil
		}
	default:
		return Runner{}, false, os.NewSyscallError("flock", err)
	}
	return h.runner(path), true, nil
}

// runningFromLocks is like Running, but for users who may not open the lock. It finds the process
// that holds the lock in the kernel's list, which covers only this host.
func runningFromLocks(path string) (Runner, bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Runner{}, false, os.NewSyscallError("stat", err)
	}
	pid := host.LockHolder(path)
	return Runner{PID: pid, Host: host.Name(), Since: time.Unix(st.Mtim.Unix()), Here: true, UID: int(st.Uid)}, pid != 0, nil
}

func (h holder) runner(lock string) Runner {
	r := Runner{PID: h.PID, Host: h.Host, Since: h.Since, UID: -1}
	r.Here = h.Boot == host.BootID() && h.Boot != ""
	of := lock // the runner owns its lock file, and processes of other hosts are not visible here
	if r.Here && h.PID != 0 {
		of = "/proc/" + strconv.Itoa(h.PID)
	}
	var st unix.Stat_t
	if unix.Stat(of, &st) == nil {
		r.UID = int(st.Uid)
	}
	return r
}
