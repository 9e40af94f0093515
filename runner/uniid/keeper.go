// Package uniid maintains logs/uni_id.json, in which batches of the block dialect record for other
// scripts how each attempt ended.
//
// The file is shared with scripts that do not use gpurun and may rewrite it at any moment. So
// gpurun merges into it: entries and fields that it did not write stay, an end written by a script
// stays while its attempt runs, and a file that does not parse is left alone until it does. Nothing
// here blocks: updates that cannot be made now are left to a later flush.
//
// Usually the file is replaced by rename, so that a reader always sees a complete one. But scripts
// that lock the file would then write to a file that no longer exists. So once gpurun has seen such
// a lock, it locks the file itself and writes it in place.
package uniid

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// States of an attempt in the file.
const (
	running  = "running"
	normal   = "normal_exit"
	abnormal = "abnormal_exit"
)

// errBusy means that the file cannot be written right now: it is locked, or a script is
// writing it.
var errBusy = errors.New("is being written by another process")

// emptyFor is how long a file must stay empty before it counts as empty, rather than as
// truncated by a script that is about to rewrite it.
const emptyFor = time.Second

// A maintainer merges gpurun's entries into one file. It is not safe for concurrent use.
type maintainer struct {
	path string
	mine map[string]entry // gpurun's own entries

	inPlace    bool // scripts lock the file
	emptySince time.Time
	left       []orphan
	seen       fs.FileInfo // the file's info when it last contained all of mine
	dirty      bool        // part of mine has not been merged yet
}

// newMaintainer returns a maintainer for a file, which need not exist. path is absolute.
func newMaintainer(path string) *maintainer {
	return &maintainer{path: path, mine: map[string]entry{}}
}

// unchanged reports whether a file is still the one that was seen, with the same content.
func unchanged(now, seen fs.FileInfo) bool {
	return now != nil && seen != nil && os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime())
}

// put records the state of an attempt. A pid of 0 keeps the earlier pid, and an empty error type
// does not change the file's.
func (k *maintainer) put(uniID string, e entry) {
	if old, ok := k.mine[uniID]; ok && e.PID == 0 {
		e.PID = old.PID
	}
	k.mine[uniID] = e
	k.dirty = true
}

// flush merges gpurun's entries into the file, if some are missing or another process has written
// the file since. An errBusy error asks for another flush soon.
func (k *maintainer) flush() error {
	rescued := k.rescue()
	now, _ := os.Stat(k.path)
	if len(k.mine) == 0 || !k.dirty && len(rescued) == 0 && unchanged(now, k.seen) {
		return nil
	}
	seen, err := k.merge(rescued)
	if k.dirty = err != nil; !k.dirty {
		k.seen = seen
		return nil
	}
	if !errors.Is(err, errBusy) {
		err = fmt.Errorf("uni_id.json: %w", err)
	}
	return err
}

// merge merges entries and rescued changes into the file, and returns the file's new info.
func (k *maintainer) merge(rescued []change) (now fs.FileInfo, err error) {
	dir, err := k.lockFolder()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := k.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		text, _, err := merge(nil, k.mine, rescued)
		if err != nil {
			return nil, err
		}
		return create(path, text)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // releases its lock
	if err := k.lock(f); err != nil {
		return nil, err
	}
	old, info, err := k.read(f, path)
	if err != nil {
		return nil, err
	}
	text, changed, err := merge(old, k.mine, rescued)
	switch {
	case err != nil:
		return nil, errBusy
	case !changed:
		return info, nil
	case k.inPlace: // in one write, so that a reader without the lock sees no remains of the old content
		return written(f, append(text, bytes.Repeat([]byte(" "), max(0, len(old)-len(text)))...))
	}
	return k.replace(path, text, old, info)
}

// lockFolder excludes other runs whose job files are in the same folder. It does nothing on a
// file system that cannot lock folders.
func (k *maintainer) lockFolder() (*os.File, error) {
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
		return nil, errBusy
	}
	return f, nil
}

// read returns the whole content. For an empty file, it returns errBusy at first, because a script may
// be about to rewrite the file.
func (k *maintainer) read(f *os.File, path string) ([]byte, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(now, info) {
		return nil, nil, errBusy // replaced while we waited for its lock
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	switch {
	case err != nil:
		return nil, nil, err
	case len(data) > 0:
		k.emptySince = time.Time{}
	case k.emptySince.IsZero():
		k.emptySince = time.Now()
		return nil, nil, errBusy
	case time.Since(k.emptySince) < emptyFor:
		return nil, nil, errBusy
	}
	return data, info, nil
}

// create creates the file with link(2) rather than rename(2), because it must not replace a file
// that a script has just created.
func create(path string, text []byte) (fs.FileInfo, error) {
	t, now, err := temporary(path, text, 0o644)
	if err != nil {
		return nil, err
	}
	defer t.Cleanup()
	err = os.Link(t.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return nil, errBusy
	}
	if err != nil { // a file system without links
		err = t.CloseAtomicallyReplace()
	}
	return now, err
}

// replace replaces the file that had the content old, and watches the replaced file. It exchanges
// the old and the new file, so that a file that a script has just put there is not lost. If the
// file system cannot exchange files, it only checks for a change before it replaces the file.
func (k *maintainer) replace(path string, text, old []byte, read fs.FileInfo) (now fs.FileInfo, err error) {
	t, now, err := temporary(path, text, read.Mode().Perm())
	if err != nil {
		return nil, err
	}
	defer t.Cleanup()
	if info, _ := os.Stat(path); !unchanged(info, read) {
		return nil, errBusy
	}
	if unix.Renameat2(unix.AT_FDCWD, t.Name(), unix.AT_FDCWD, path, unix.RENAME_EXCHANGE) == nil {
		k.watch(t.Name(), old, read)
		return now, nil
	}
	k.watch(path, old, read)
	return now, t.CloseAtomicallyReplace()
}

// temporary returns a file next to path with the new content.
func temporary(path string, text []byte, mode fs.FileMode) (*renameio.PendingFile, fs.FileInfo, error) {
	t, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode))
	if err != nil {
		return nil, nil, err
	}
	info, err := written(t.File, text)
	if err != nil {
		t.Cleanup()
	}
	return t, info, err
}

func written(f *os.File, text []byte) (fs.FileInfo, error) {
	if _, err := f.WriteAt(text, 0); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f.Stat()
}
