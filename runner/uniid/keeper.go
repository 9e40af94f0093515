// Package uniid maintains logs/uni_id.json, in which batches of the block dialect tell
// other scripts how each attempt ended.
//
// The file is shared with scripts that know nothing of gpurun and may rewrite it at any
// moment. So gpurun merges into it: entries and fields that it did not write stay, an end
// that a script wrote is not overwritten, and a file that does not parse is left alone
// until it does. Nothing here blocks: what cannot be done now is left to a later Flush.
//
// Usually the file is replaced by rename, so that a reader always sees a complete one.
// Scripts that lock it would then write to a file that is no longer there; once a lock
// has been seen, the file is written in place, under that lock.
package uniid

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// States of an attempt, as the file has them.
const (
	Running  = "running"
	Normal   = "normal_exit"
	Abnormal = "abnormal_exit"
)

// ErrBusy means that the file cannot be written right now: it is locked, or a script is
// writing it.
var ErrBusy = errors.New("is being written by somebody else")

// emptyFor is how long a file must stay empty before it counts as empty, rather than as
// truncated by a script that is about to rewrite it.
const emptyFor = time.Second

// A Keeper maintains one file. It is not safe for concurrent use.
type Keeper struct {
	path string
	mine map[string]entry // gpurun's own entries

	inPlace    bool // scripts lock the file
	emptySince time.Time
	left       []orphan
	seen       stamp // of the file when it was last complete
	dirty      bool  // part of mine has not been merged yet
}

// A stamp identifies one version of a file.
type stamp struct {
	inode uint64
	size  int64
	mtime time.Time
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

// NewKeeper maintains the file at an absolute path; it need not exist.
func NewKeeper(path string) *Keeper {
	return &Keeper{path: path, mine: map[string]entry{}}
}

// Set records the state of an attempt, and flushes. A pid of 0 leaves the pid unset, an
// empty errorType the error.
func (k *Keeper) Set(uniID string, pid int, state string, retryCount int, errorType string) error {
	k.put(uniID, entry{PID: pid, State: state, RetryCount: retryCount, ErrorType: errorType})
	return k.Flush()
}

func (k *Keeper) put(uniID string, e entry) {
	if old, ok := k.mine[uniID]; ok && e.PID == 0 {
		e.PID = old.PID
	}
	k.mine[uniID] = e
	k.dirty = true
}

// Flush merges everything set into the file, if some of it is missing or somebody else
// has written the file since. ErrBusy asks for another Flush soon.
func (k *Keeper) Flush() error {
	rescued := k.rescue()
	if len(k.mine) == 0 || !k.dirty && len(rescued) == 0 && k.unchanged() {
		return nil
	}
	err := k.flush(rescued)
	if err != nil {
		k.dirty = true
		if !errors.Is(err, ErrBusy) {
			err = fmt.Errorf("uni_id.json: %w", err)
		}
	}
	return err
}

// unchanged reports whether the file is as Flush left it.
func (k *Keeper) unchanged() bool {
	info, err := os.Stat(k.path)
	return err == nil && stampOf(info) == k.seen
}

func (k *Keeper) flush(rescued []change) error {
	dir, err := k.lockFolder()
	if err != nil {
		return err
	}
	defer dir.Close()
	path := k.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return k.done(k.created(path, rescued))
	}
	if err != nil {
		return err
	}
	now, watched, err := k.update(f, path, rescued)
	if !watched {
		f.Close() // releases its lock
	}
	return k.done(now, err)
}

// update merges into the file that is open as f. watched reports whether f was replaced
// and is kept open.
func (k *Keeper) update(f *os.File, path string, rescued []change) (now stamp, watched bool, err error) {
	if err := k.lock(f); err != nil {
		return stamp{}, false, err
	}
	old, info, err := k.read(f, path)
	if err != nil {
		return stamp{}, false, err
	}
	text, changed, err := merge(old, k.mine, rescued)
	switch {
	case err != nil:
		return stamp{}, false, ErrBusy
	case !changed:
		return stampOf(info), false, nil
	case k.inPlace:
		now, err = writeInPlace(f, text, info.Size())
		return now, false, err
	}
	now, displaced, err := replace(path, text, info)
	if displaced != nil {
		k.watch(displaced, old, stamp{})
	}
	if err == nil {
		k.watch(f, old, stampOf(info))
	}
	return now, err == nil, err
}

// lockFolder keeps out other runs whose job files are in the same folder. It does nothing
// on a file system that cannot lock folders.
func (k *Keeper) lockFolder() (*os.File, error) {
	dir := filepath.Dir(k.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, ErrBusy
	}
	return f, nil
}

// read returns the whole content. An empty file is one that a script is about to
// rewrite, unless it stays empty.
func (k *Keeper) read(f *os.File, path string) ([]byte, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(now, info) {
		return nil, nil, ErrBusy // replaced while we waited for its lock
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	switch {
	case err != nil:
		return nil, nil, err
	case len(data) > 0:
		k.emptySince = time.Time{}
	case k.emptySince.IsZero():
		k.emptySince = time.Now()
		return nil, nil, ErrBusy
	case time.Since(k.emptySince) < emptyFor:
		return nil, nil, ErrBusy
	}
	return data, info, nil
}

func (k *Keeper) created(path string, changes []change) (stamp, error) {
	text, _, err := merge(nil, k.mine, changes)
	if err != nil {
		return stamp{}, err
	}
	return create(path, text)
}

// create creates the file by link rather than rename: it must not replace one that a
// script has created meanwhile.
func create(path string, text []byte) (stamp, error) {
	t, now, err := temporary(path, text, 0o644)
	if err != nil {
		return stamp{}, err
	}
	defer t.Cleanup()
	switch err := os.Link(t.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return stamp{}, ErrBusy
	case err != nil: // a file system without links
		return now, t.CloseAtomicallyReplace()
	}
	return now, nil
}

// replace replaces the file that was read. It exchanges the two, so that a file that a
// script has put there in between is not lost, but returned. On a file system that cannot
// exchange files it only checks first.
func replace(path string, text []byte, read fs.FileInfo) (now stamp, displaced *os.File, err error) {
	t, now, err := temporary(path, text, read.Mode().Perm())
	if err != nil {
		return stamp{}, nil, err
	}
	defer t.Cleanup()
	if info, err := os.Stat(path); err != nil || stampOf(info) != stampOf(read) {
		return stamp{}, nil, ErrBusy
	}
	if unix.Renameat2(unix.AT_FDCWD, t.Name(), unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) != nil {
		return now, nil, t.CloseAtomicallyReplace()
	}
	f, err := os.Open(t.Name())
	if err != nil {
		return now, nil, nil // its content was read before
	}
	if info, err := f.Stat(); err == nil && !os.SameFile(info, read) {
		return now, f, nil
	}
	f.Close()
	return now, nil, nil
}

// temporary returns a file next to path with the new content, and its stamp.
func temporary(path string, text []byte, mode fs.FileMode) (*renameio.PendingFile, stamp, error) {
	t, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode))
	if err != nil {
		return nil, stamp{}, err
	}
	if _, err = t.Write(text); err == nil {
		err = t.Sync()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = t.Stat()
	}
	if err != nil {
		t.Cleanup()
		return nil, stamp{}, err
	}
	return t, stampOf(info), nil
}

// writeInPlace overwrites the content in one write. It pads shorter content with spaces,
// so that a reader without the lock sees no remains.
func writeInPlace(f *os.File, text []byte, old int64) (stamp, error) {
	for int64(len(text)) < old {
		text = append(text, ' ')
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return stamp{}, err
	}
	if err := f.Sync(); err != nil {
		return stamp{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stampOf(info), nil
}

// done remembers the file as complete.
func (k *Keeper) done(now stamp, err error) error {
	if err == nil {
		k.seen, k.dirty = now, false
	}
	return err
}
