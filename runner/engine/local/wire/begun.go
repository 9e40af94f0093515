package wire

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
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
	return true, errors.Join(err, f.Close())
}

// voidWhole writes a marker under a temporary name and renames it. The error is
// fs.ErrExist if the marker exists already.
func voidWhole(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "void-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(voidMark)
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Begun reads the marker that a child left. If the marker names no process (the child
// was killed while writing it, or the disk was full), Begun returns a zero ID: what
// began must then be found by other means.
func Begun(path string) (procs.ID, error) {
	b, err := host.ReadOwn(path, 4096)
	if err != nil {
		return procs.ID{}, err
	}
	s, _ := host.ParseStat(b)
	return procs.ID{PID: s.PID, Start: s.Start}, nil
}

// Marker returns the path of the file that marks command i of an attempt as begun. Its
// keeper creates it, empty, before it creates the process, or somebody else to keep the
// command from beginning (Void).
func Marker(dir string, i int) string {
	if i == 0 {
		return filepath.Join(dir, "begun")
	}
	return filepath.Join(dir, "begun."+strconv.Itoa(i+1))
}

// Roots returns the processes that the markers of an attempt name, and whether any of its
// commands began.
func Roots(dir string) (roots []procs.ID, began bool) {
	for i := 0; ; i++ {
		p, err := Begun(Marker(dir, i))
		if err != nil {
			return roots, i > 0
		}
		if p.PID != 0 {
			roots = append(roots, p)
		}
	}
}
