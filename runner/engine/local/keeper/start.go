package keeper

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// A program is a command to start in a session of its own.
type program struct {
	path  string
	argv  []string
	env   []string
	dir   string
	files []uintptr    // descriptors for 0, 1 and 2
	cores *unix.CPUSet // cores it may run on; nil for all cores of the keeper
}

// start creates the process. The caller keeps it from being reaped until start returns. From its
// first instruction on, the process has the cores of the thread that forks it, and its children
// inherit them.
func (p *program) start() (procs.ID, error) {
	if p.cores != nil {
		runtime.LockOSThread() // also prevents the runtime from cloning new threads from this one
		defer runtime.UnlockOSThread()
		var all unix.CPUSet
		if unix.SchedGetaffinity(0, &all) == nil && unix.SchedSetaffinity(0, p.cores) == nil {
			defer func() { _ = unix.SchedSetaffinity(0, &all) }()
		}
	}
	pid, err := syscall.ForkExec(p.path, p.argv, &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: p.files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return procs.ID{}, &execError{p.argv[0], err}
	}
	s, _ := host.StatOf(pid)
	return procs.ID{PID: pid, Start: s.Start}, nil
}

// bound returns those cores of a list that this process may use; nil for an empty list.
func bound(list string) (*unix.CPUSet, error) {
	if list == "" {
		return nil, nil
	}
	cores, err := host.ParseCores(list)
	if err != nil {
		return nil, fmt.Errorf("affinity: not binding jobs: %w", err)
	}
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, fmt.Errorf("affinity: not binding jobs: %w", err)
	}
	for i := range cores {
		cores[i] &= may[i]
	}
	if cores.Count() == 0 {
		return nil, fmt.Errorf("affinity: not binding jobs to cores %s of their GPUs' NUMA node: gpurun is not allowed to use them (check taskset and cpusets)", list)
	}
	return &cores, nil
}

// start starts a program of an attempt and adds it to the forest before anything can look it up.
func (k *keeper) start(a *attempt, p *program) (procs.ID, <-chan end, error) {
	k.forest.mu.Lock()
	defer k.forest.mu.Unlock()
	id, exit, err := k.reaper.start(p)
	if err == nil {
		k.forest.roots = append(k.forest.roots, root{id, a})
	}
	return id, exit, err
}

// An execError reports a program that cannot be executed.
type execError struct {
	path string
	err  error
}

func (e *execError) Error() string { return fmt.Sprintf("cannot execute %q: %v", e.path, e.err) }
func (e *execError) Unwrap() error { return e.err }

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// program returns the path of a program. It searches a PATH again only if the program it found
// there is gone.
func (k *keeper) program(name, dir, path string) (string, error) {
	key := [2]string{name, path}
	if found, ok := k.programs.Load(key); ok && unix.Access(found.(string), unix.X_OK) == nil {
		return found.(string), nil
	}
	found, err := lookPath(name, dir, path)
	relative := func(d string) bool { return !filepath.IsAbs(d) }
	if err == nil && !slices.ContainsFunc(filepath.SplitList(path), relative) && filepath.IsAbs(found) {
		k.programs.Store(key, found)
	}
	return found, err
}

// lookPath finds a program as the job itself would: through the job's PATH, not the keeper's.
func lookPath(name, dir, path string) (string, error) {
	if name == "" {
		return "", &execError{name, unix.ENOENT}
	}
	if strings.Contains(name, "/") {
		return name, executable(name, dir)
	}
	if path == "" {
		path = defaultPath
	}
	err := &execError{name, unix.ENOENT}
	for _, d := range filepath.SplitList(path) {
		found := filepath.Join(d, name)
		switch why := executable(found, dir); {
		case why == nil:
			return found, nil
		case errors.Is(why, unix.EACCES):
			err.err = unix.EACCES
		}
	}
	return "", err
}

// executable reports why a file cannot be executed in a working directory.
func executable(path, dir string) error {
	at := path
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	var st unix.Stat_t
	err := unix.Stat(at, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EISDIR
	}
	if err == nil {
		err = unix.Access(at, unix.X_OK)
	}
	if err != nil {
		return &execError{path, err}
	}
	return nil
}
