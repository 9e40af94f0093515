package spawn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// voidMark is the content of a marker created to keep the program from beginning.
const voidMark = "void\n"

// Void creates the marker instead of a child, so that from now on no child will run its
// program. It reports whether it won: if so, none ever has. The marker appears in one
// step with its content: an empty one, from a process killed while writing, would look
// like a child's.
func Void(path string) (won bool, err error) {
	switch err = voidWhole(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		b, err := host.ReadOwn(path, 4096)
		return err == nil && string(b) == voidMark, err
	}
	// The disk is full, or the file system cannot do it in one step.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(voidMark)
	if e := f.Close(); err == nil {
		err = e
	}
	return true, err
}

// voidWhole writes a marker under a temporary name and renames it. The error is
// fs.ErrExist if the marker exists already.
func voidWhole(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "void-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(voidMark)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Begun reads the marker that a child left. If the marker names no process (the child
// was killed while writing it, or the disk was full), Begun returns a zero Process:
// what began must then be found by other means.
func Begun(path string) (Process, error) {
	b, err := host.ReadOwn(path, 4096)
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(b)
	if err != nil {
		return Process{}, nil
	}
	return p, nil
}

var errNoStat = errors.New("not a line of /proc/PID/stat")

// parseStat extracts pid and start time from /proc/PID/stat; see proc(5).
func parseStat(b []byte) (Process, error) {
	s, ok := host.ParseStat(b)
	if !ok {
		return Process{}, errNoStat
	}
	return Process{PID: s.PID, Start: s.Start}, nil
}
