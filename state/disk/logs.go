package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// keptMark is an extended attribute that marks logs that gpurun wrote and FreshLog renamed. gpurun may
// replace them later. A LOG.1 without the attribute is not gpurun's.
const keptMark = "user.gpurun.kept"

// FreshLog makes room for a new log by renaming the old one to LOG.1. It renames only a nonempty
// regular file; links and special files stay as they are. It reports whether the log is now missing
// or an empty regular file. If LOG.1 exists and FreshLog did not create it, as far as the file system
// can show that, nothing is renamed. A log that last changed before the batch began is not gpurun's,
// so once it has become LOG.1, it is not replaced. If own is set, the log is in gpurun's own folder,
// and LOG.1 is always replaced.
func FreshLog(path string, own bool, began time.Time) (empty bool, err error) {
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
	if !own && !mayKeep(path, fi, began) {
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

// mayKeep reports whether a log may be renamed to LOG.1. If so, and if the log is gpurun's, it marks
// the log.
func mayKeep(log string, fi fs.FileInfo, began time.Time) bool {
	mark := func() error { return unix.Setxattr(log, keptMark, []byte("1"), 0) }
	if kept, err := os.Lstat(log + ".1"); err == nil {
		if _, err := unix.Lgetxattr(log+".1", keptMark, nil); err != nil {
			if kept.ModTime().Before(began) {
				return false // even if the file system has no attributes
			}
			if mark() == nil {
				_ = unix.Removexattr(log, keptMark)
				return false
			}
		}
	}
	if !fi.ModTime().Before(began) {
		_ = mark()
	}
	return true
}

// LogPath returns the default log path of a job. Slashes in the job's name create subfolders.
func (s *State) LogPath(file int, job string) string {
	return logPath(s.files[file].dir, job)
}

// Began returns when the first run of a job file began, according to its ledger.
func (s *State) Began(file int) time.Time { return s.files[file].ledger.born }

// CurvePath returns the file with the points of an attempt's curves.
func (s *State) CurvePath(file int, uniID string) string { return CurvePath(s.files[file].dir, uniID) }

// CurvePath returns the file with the points of an attempt's curves within a batch's folder.
func CurvePath(dir, uniID string) string {
	return filepath.Join(dir, curvesName, filepath.Base(uniID)+".jsonl")
}

// CopyCurve copies the points of an attempt's curves, if there are any, to another batch's folder.
// The points are optional, so it ignores errors.
func CopyCurve(from, to, uniID string) {
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

// maxName is the maximum length of a file name (NAME_MAX), minus room for ".log.1".
const maxName = unix.NAME_MAX - 8

func logPath(dir, job string) string {
	parts := strings.Split(job, "/")
	for i, p := range parts {
		if p == "." || p == ".." { // stay inside the logs folder
			parts[i] = "_" + p
		}
		// A folder must not have the name of another job's log, or of a file next to that.
		if len(p) > maxName || i < len(parts)-1 && strings.Contains(p, ".log") {
			parts[i] = p[:min(len(p), maxName-9)] + "-" + shortHash(p)
		}
	}
	return filepath.Join(dir, logsName, filepath.Join(parts...)+".log")
}
