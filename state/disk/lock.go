package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// A LockedError says that another gpurun runs the job file.
type LockedError struct {
	File  string // job file
	PID   int    // 0 when unknown
	Host  string
	Since time.Time
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is being run by process %d on %s since %s", e.File, e.PID, e.Host, e.Since.Local().Format(time.DateTime))
}

// holder is what the lock file says of who holds it.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Boot  string    `json:"boot_id"`
	Since time.Time `json:"since"`
}

// takeLock locks a batch folder for this process. The lock ends with the process,
// however it ends; what the file says is for messages only, except where the file
// system cannot lock: there another host's name counts as a lock.
func takeLock(jobFile, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockName)
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
	got, err := tryLock(l, path)
	was := readHolder(path)
	if noLocks(err) {
		if was.PID != 0 && (was.Host != hostname() || alive(was)) {
			return nil, &LockedError{File: jobFile, PID: was.PID, Host: was.Host, Since: was.Since}
		}
		return nil, writeHolder(dir, path)
	}
	if err != nil {
		return nil, &FolderError{dir, cause(err)}
	}
	if !got {
		l.Close()
		return nil, &LockedError{File: jobFile, PID: was.PID, Host: was.Host, Since: was.Since}
	}
	if err := writeHolder(dir, path); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// How long a lock is tried for.
const (
	lockLook = 10 * time.Millisecond
	askWait  = 50 * time.Millisecond // who only asks whether a run is alive holds a shared lock for microseconds
	deadWait = 2 * time.Second       // a child of a killed run has the lock until it has become a program
)

// tryLock tries for a moment, and longer where the run that has the lock is dead.
func tryLock(l *flock.Flock, path string) (bool, error) {
	for began := time.Now(); ; time.Sleep(lockLook) {
		got, err := l.TryLock()
		waited := time.Since(began)
		if got || err != nil || waited > deadWait || waited > askWait && !dead(readHolder(path)) {
			return got, err
		}
	}
}

// dead says that the process of a holder was on this host and is gone.
func dead(h holder) bool { return h.PID != 0 && h.Host == hostname() && !alive(h) }

// noLocks says that the file system has no flock.
func noLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

// alive says whether the process of a holder on this host is still there.
func alive(h holder) bool {
	if h.Boot != bootID() || h.PID == os.Getpid() {
		return false
	}
	err := unix.Kill(h.PID, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

func readHolder(path string) holder {
	var h holder
	b, err := os.ReadFile(path)
	if err == nil {
		_ = json.Unmarshal(b, &h) // a holder that is just writing it stays unnamed
	}
	return h
}

// writeHolder names this process in the lock file. The file keeps its length, so
// that a full disk cannot make it unreadable.
func writeHolder(dir, path string) error {
	b, err := json.Marshal(holder{PID: os.Getpid(), Host: hostname(), Boot: bootID(), Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	padded := make([]byte, 512)
	for i := range padded {
		padded[i] = ' '
	}
	padded[copy(padded, b)] = '\n'
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return &FolderError{dir, cause(err)}
	}
	defer f.Close()
	if _, err := f.WriteAt(padded, 0); err != nil {
		return &FolderError{dir, cause(err)}
	}
	return nil
}

// clearHolder takes the name out of a lock file that is let go.
func clearHolder(dir string) {
	if f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_WRONLY, 0); err == nil {
		padded := make([]byte, 512)
		for i := range padded {
			padded[i] = ' '
		}
		_, _ = f.WriteAt(padded, 0)
		f.Close()
	}
}
