package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// FreshLog makes room for a new log: the old one is kept as LOG.1. Only a regular
// file that is no link is moved aside; all else is opened as it is. An empty one
// says nothing worth keeping. The result is true when what is written there now is
// the first of it.
func FreshLog(path string) (empty bool, err error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, cause(err)
	}
	if !fi.Mode().IsRegular() || fi.Size() == 0 {
		return fi.Mode().IsRegular(), nil
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

// LogPath is where the output of a job goes that names no log. Names may hold
// slashes, and then the log lies in folders below.
func (s *State) LogPath(file int, job string) string {
	return logPath(s.dirs[file], job)
}

// maxName is how long a file name may be (NAME_MAX), with room for ".log.1".
const maxName = unix.NAME_MAX - 8

func logPath(dir, job string) string {
	parts := strings.Split(job, "/")
	for i, p := range parts {
		if p == "." || p == ".." { // a log stays in its folder
			parts[i] = "_" + p
		}
		if len(p) > maxName {
			parts[i] = p[:maxName-9] + "-" + short(p)
		}
	}
	return filepath.Join(dir, logsName, filepath.Join(parts...)+".log")
}
