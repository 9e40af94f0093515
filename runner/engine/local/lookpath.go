package local

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/spawn"
)

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// lookPath finds a program as the job itself would: through the job's PATH, not ours.
func lookPath(name, dir, path string) (string, error) {
	if name == "" {
		return "", &spawn.Error{Stage: spawn.Exec, Path: name, Errno: unix.ENOENT}
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path == "" {
		path = defaultPath
	}
	errno := unix.ENOENT
	for _, d := range filepath.SplitList(path) {
		p := filepath.Join(d, name)
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
		errno = unix.EACCES
	}
	return "", &spawn.Error{Stage: spawn.Exec, Path: name, Errno: errno}
}
