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
	Elsewhere bool // its state is in another folder, or the file has another name there
	Space     bool // PID is from another PID namespace, such as a container's
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is already running as process %d on %s since %s", e.File, e.PID, e.Host, e.Since.Local().Format(time.DateTime))
}

// A holder is the content of a lock file: who holds it.
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

// takeLock locks a batch folder for this process. The lock ends with the process,
// however that ends. The file's content is only for messages, unless the file system
// has no locks: then another host's name in it counts as a lock.
func takeLock(jobFile, dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	for {
		f, err := host.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, in(dir, err)
		}
		err = lockFile(f, jobFile)
		if err == nil && !sameFile(f, path) {
			f.Close() // removed or replaced before it was locked
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
	if was.PID == 0 { // a run names itself; whoever else holds the lock is named by the kernel
		return host.Flock(f, unix.LOCK_EX, 0)
	}
	return &LockedError{File: jobFile, PID: was.PID, Host: was.Host, Since: was.Since, Space: was.foreign()}
}

// sameFile reports whether path still names an open file.
func sameFile(f *os.File, path string) bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && unix.Lstat(path, &at) == nil && st.Dev == at.Dev && st.Ino == at.Ino
}

// How long to retry a lock.
const (
	lockLook = 10 * time.Millisecond
	askWait  = 50 * time.Millisecond // checking whether a run is alive takes a shared lock for microseconds
	deadWait = 2 * time.Second       // a child of a killed run holds the lock until it execs
)

// tryLock retries briefly, and for longer while the run that holds the lock is dead.
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

// dead reports whether h was a process on this host that is gone. What is not visible
// from here is not; this very process is, unless self says that it may be the holder.
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
	_ = json.Unmarshal(b[:n], &h) // fails while the holder is writing it: left unnamed
	return h
}

// holderSize is the fixed length of a lock file. Rewriting it in place works even if
// the disk is full.
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

// editsWait is how long another gpurun may take to change a job file.
const editsWait = 20 * time.Second

// LockEdits waits until no other gpurun is changing the text of a job file, and keeps
// others from doing so until unlock is called. On a file system without locks it does not.
func LockEdits(jobFile, stateDir string) (unlock func(), err error) {
	dir := Folder(jobFile, stateDir)
	for _, prepare := range []func(dir, jobFile string) error{above, func(dir, _ string) error { return makeFolder(dir) }, within} {
		if err := prepare(dir, jobFile); err != nil {
			return nil, err
		}
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

// clearHolder erases the identity from a lock file that is being released.
func clearHolder(f *os.File) {
	_, _ = f.WriteAt(bytes.Repeat([]byte{' '}, holderSize), 0)
}

// lockJobFile locks the job file itself, so one job file never runs twice at once,
// even if its state folder is removed or a second run uses another. It returns nil
// for what cannot be locked: no file, a pipe, a file system that requires write
// access. A lock held by another user is ignored: anybody who can read the file can
// lock it, and it may be a shared job file that both are running.
func lockJobFile(jobFile string) (*os.File, error) {
	f, info, err := host.OpenRegular(jobFile)
	if err != nil {
		return nil, nil
	}
	st := info.Sys().(*syscall.Stat_t)
	pid := 0
	got, err := tryLock(f, func() bool {
		pid = host.LockHolder(st.Dev, st.Ino)
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

// inherited reports whether this process inherited the lock, as under
// "flock jobs.yaml gpurun jobs.yaml", which holds it in its own open file.
func inherited(st *syscall.Stat_t) bool {
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

// A Runner is the gpurun process that is running a job file.
type Runner struct {
	PID   int       `json:"pid"` // 0 if its lock file does not name it
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Here  bool      `json:"-"` // on this host
	UID   int       `json:"-"` // owner of the process; -1 if unknown
}

// Running returns who is running a job file, judging by its lock. A run that is
// stopped, hung or owned by another user is alive. An error means it cannot be
// determined. Of a run that is not alive, a PID means that it died: a run that ends
// erases its name.
func Running(jobFile, stateDir string) (r Runner, alive bool, err error) {
	path := filepath.Join(Folder(jobFile, stateDir), lockName)
	f, err := host.OpenOwn(path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return Runner{}, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return seen(path)
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
	case err == unix.EWOULDBLOCK: // somebody holds it
	case host.NoLocks(err):
		if h.PID == 0 || h.dead(true) {
			return Runner{}, false, nil
		}
	default:
		return Runner{}, false, os.NewSyscallError("flock", err)
	}
	return h.runner(path), true, nil
}

// seen is Running for users who may not open the lock: the kernel tells who holds it on this host.
func seen(path string) (Runner, bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Runner{}, false, os.NewSyscallError("stat", err)
	}
	pid := host.LockHolder(st.Dev, st.Ino)
	return Runner{PID: pid, Host: host.Name(), Since: time.Unix(st.Mtim.Unix()), Here: true, UID: int(st.Uid)}, pid != 0, nil
}

func (h holder) runner(lock string) Runner {
	r := Runner{PID: h.PID, Host: h.Host, Since: h.Since, UID: -1}
	r.Here = h.Boot == host.BootID() && h.Boot != ""
	of := lock // the runner owns its lock file; other hosts' processes are not visible here
	if r.Here && h.PID != 0 {
		of = "/proc/" + strconv.Itoa(h.PID)
	}
	var st unix.Stat_t
	if unix.Stat(of, &st) == nil {
		r.UID = int(st.Uid)
	}
	return r
}
