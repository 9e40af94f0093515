package local

import (
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/spawn"
)

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// programs remembers briefly where programs were found: all jobs of a batch start the
// same shell.
type programs struct {
	mu    sync.Mutex
	since time.Time
	found map[program]string
}

// A program is a name and the places it is searched from.
type program struct{ name, dir, path string }

// rememberFor is how long a program newly added to an earlier folder of PATH may be
// missed.
const rememberFor = time.Second

// find is lookPath with a cache.
func (p *programs) find(name, dir, path string) (string, error) {
	key := program{name, dir, path}
	now := time.Now()
	p.mu.Lock()
	if now.Sub(p.since) > rememberFor {
		p.found, p.since = map[program]string{}, now
	}
	at := p.found[key]
	p.mu.Unlock()
	if at != "" {
		return at, nil
	}
	at, err := lookPath(name, dir, path)
	if err == nil {
		p.mu.Lock()
		p.found[key] = at
		p.mu.Unlock()
	}
	return at, err
}

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
