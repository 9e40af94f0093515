package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// keptMark is an extended attribute of a log that was moved aside, for the next time:
// what else has that name is somebody's file.
const keptMark = "user.gpurun.kept"

// FreshLog makes room for a new log, keeping the old one as LOG.1. Only a nonempty
// regular file is moved; links and special files are opened as they are. It reports
// whether the log is now a missing or empty regular file. Nothing is moved where LOG.1
// exists and is no log that was moved there, as far as the file system can tell; in
// gpurun's own folder (own) it is one.
func FreshLog(path string, own bool) (empty bool, err error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, host.Cause(err)
	}
	if !fi.Mode().IsRegular() || fi.Size() == 0 {
		return fi.Mode().IsRegular(), nil
	}
	if !own && !mayKeep(path, path+".1") {
		return false, nil
	}
	if err := os.Rename(path, path+".1"); err != nil {
		var l *os.LinkError
		if errors.As(err, &l) {
			return false, l.Err
		}
		return false, err
	}
	return true, nil
}

// mayKeep reports whether a log may be moved to a name, and marks it for that.
func mayKeep(log, name string) bool {
	_, err := os.Lstat(name)
	if err == nil {
		_, err = unix.Lgetxattr(name, keptMark, nil)
		if err != nil && unix.Setxattr(log, keptMark, []byte("1"), 0) == nil {
			_ = unix.Removexattr(log, keptMark)
			return false
		}
	}
	_ = unix.Setxattr(log, keptMark, []byte("1"), 0)
	return true
}

// LogPath returns the default log path of a job. Slashes in its name become
// subfolders.
func (s *State) LogPath(file int, job string) string {
	return logPath(s.files[file].dir, job)
}

// CurvePath returns where the points of an attempt's curves are.
func (s *State) CurvePath(file int, uniID string) string { return CurvePath(s.files[file].dir, uniID) }

// CurvePath returns where the points of an attempt's curves are within a batch's folder.
func CurvePath(dir, uniID string) string {
	return filepath.Join(dir, curvesName, filepath.Base(uniID)+".jsonl")
}

// TakeCurve has another batch's folder hold the points of an attempt's curves too, if there
// are any. They are extra: a failure is ignored.
func TakeCurve(from, to, uniID string) {
	old, path := CurvePath(from, uniID), CurvePath(to, uniID)
	if _, err := os.Lstat(old); err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	if err := os.Link(old, path); err == nil || errors.Is(err, fs.ErrExist) {
		return
	}
	if points, err := os.ReadFile(old); err == nil {
		_ = Replace(path, points)
	}
}

// maxName is the maximum length of a file name (NAME_MAX), less room for ".log.1".
const maxName = unix.NAME_MAX - 8

func logPath(dir, job string) string {
	parts := strings.Split(job, "/")
	for i, p := range parts {
		if p == "." || p == ".." { // stay inside the logs folder
			parts[i] = "_" + p
		}
		if len(p) > maxName {
			parts[i] = p[:maxName-9] + "-" + short(p)
		}
	}
	return filepath.Join(dir, logsName, filepath.Join(parts...)+".log")
}
