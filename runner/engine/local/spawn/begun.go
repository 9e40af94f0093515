package spawn

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// voidMark is what a marker holds that was made so that nothing begins any more.
const voidMark = "void\n"

// Void makes the marker in the place of a child, so that no child will run its
// program from now on. It reports whether it won: if so, none ever has. The marker
// comes to be in one step with what it holds: one that is empty, since this
// process was killed while it wrote, would look like a child's.
func Void(path string) (won bool, err error) {
	switch err = voidWhole(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		b, err := host.ReadOwn(path, 4096)
		return err == nil && string(b) == voidMark, err
	}
	// No room, or a file system that cannot do it in one step.
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

// voidWhole writes a marker under another name, and gives it its own if that is
// still to be had: fs.ErrExist if not.
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

// Begun reads the marker that a child left. A marker without a readable process
// (its child was killed while it wrote, or the disk was full) is a Process of
// zeros: what began must then be found by other means.
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

var errNoStat = errors.New("no line of /proc/PID/stat")

// parseStat takes pid and start time out of a /proc/PID/stat; proc(5).
func parseStat(b []byte) (Process, error) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || shut < open {
		return Process{}, errNoStat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil {
		return Process{}, errNoStat
	}
	const startTime = 22 - 3 // field 22, counted from the third, behind the name
	fields := bytes.Fields(b[shut+1:])
	if len(fields) <= startTime {
		return Process{}, errNoStat
	}
	start, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return Process{}, errNoStat
	}
	return Process{PID: pid, Start: start}, nil
}
