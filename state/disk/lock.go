package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		f, err := host.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, &FolderError{dir, cause(err)}
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
		return nil, &FolderError{dir, cause(err)}
	}
}

// lockFile locks an open lock file.
func lockFile(f *os.File, jobFile string) error {
	got, err := tryLock(f, func() bool { return dead(readHolder(f)) })
	was := readHolder(f)
	switch {
	case noLocks(err):
		if was.PID == 0 || was.Host == host.Name() && !alive(was) {
			return nil
		}
	case err != nil:
		return os.NewSyscallError("flock", err)
	case got:
		return nil
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

// dead reports whether h was a process on this host that is gone.
func dead(h holder) bool { return h.PID != 0 && h.Host == host.Name() && !alive(h) }

// noLocks reports whether err means that the file system does not support flock.
func noLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

// alive reports whether h, on this host, still exists or is not visible from here.
func alive(h holder) bool {
	if h.foreign() {
		return true
	}
	if h.Boot != host.BootID() || h.PID == os.Getpid() {
		return false
	}
	err := unix.Kill(h.PID, 0)
	return err == nil || errors.Is(err, unix.EPERM)
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

// clearHolder erases the identity from a lock file that is being released.
func clearHolder(f *os.File) {
	_, _ = f.WriteAt(bytes.Repeat([]byte{' '}, holderSize), 0)
}
