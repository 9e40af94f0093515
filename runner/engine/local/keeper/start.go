package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// prelude is what a command's process does before it executes the command: it creates
// the marker, which contains its own line of /proc/PID/stat, unless the marker exists
// (noclobber is O_EXCL), or the keeper has died and released what it held for the
// command. Whatever a script contains, nothing of it is parsed here. Descriptor 3 tells
// the keeper, by its end, that this is over.
const prelude = `read -r gpurun_stat </proc/self/stat
case $gpurun_stat in *") "?" $2 "*) ;; *) exit 1 ;; esac
set -C
echo "$gpurun_stat" 2>/dev/null >"$1" || exit 1
shift 2
exec "$@" 3>&-`

// A program is a command to start in a session of its own.
type program struct {
	argv  []string
	env   []string
	dir   string
	files [3]int // descriptors for 0, 1 and 2
	begun string // path of the marker
}

// start returns once the process exists; the caller keeps it from being reaped until
// then. When all copies of done are closed, the marker tells whether the program begins.
func (p *program) start(done *os.File) (procs.ID, error) {
	argv := []string{"sh", "-c", prelude, "gpurun", p.begun, strconv.Itoa(os.Getpid())}
	if odd := oddVariables(p.env); len(odd) > 0 {
		argv = append(append(argv, "/usr/bin/env"), odd...)
	}
	pid, err := syscall.ForkExec("/bin/sh", append(argv, p.argv...), &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Sys: &syscall.SysProcAttr{Setsid: true},
		Files: []uintptr{uintptr(p.files[0]), uintptr(p.files[1]), uintptr(p.files[2]), done.Fd()},
	})
	if err != nil {
		return procs.ID{}, &execError{"/bin/sh", err}
	}
	s, _ := host.StatOf(pid)
	return procs.ID{PID: pid, Start: s.Start}, nil
}

// errUnbegun means that a process ended without its marker.
var errUnbegun = errors.New("the command did not begin")

// start starts a program of an attempt and adds it to the forest before anybody looks
// there. It returns when the program begins or never will.
func (k *keeper) start(a *attempt, p *program) (procs.ID, <-chan end, error) {
	over, done, err := os.Pipe()
	if err != nil {
		return procs.ID{}, nil, err
	}
	defer over.Close()
	k.forest.mu.Lock()
	id, exit, err := k.reaper.start(p, done)
	if err == nil {
		k.forest.roots = append(k.forest.roots, root{id, a})
	}
	k.forest.mu.Unlock()
	done.Close()
	if err != nil {
		return id, nil, err
	}
	_, _ = over.Read(make([]byte, 1)) // until its end
	if begun, err := wire.Begun(p.begun); err != nil || begun.PID == 0 {
		<-exit
		return id, nil, errUnbegun
	}
	return id, exit, nil
}

const nameChars = "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// oddVariables returns the variables that some shells do not hand on because their names
// are not a shell's: the functions that bash exports, for one.
func oddVariables(env []string) (odd []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if strings.Trim(name, nameChars) != "" || strings.IndexAny(name, "0123456789") == 0 {
			odd = append(odd, kv)
		}
	}
	return odd
}

// An execError reports a program that cannot be executed.
type execError struct {
	path string
	err  error
}

func (e *execError) Error() string { return fmt.Sprintf("cannot execute %q: %v", e.path, e.err) }
func (e *execError) Unwrap() error { return e.err }

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// lookPath finds a program as the job itself would: through the job's PATH, not ours.
func lookPath(name, dir, path string) error {
	if name == "" {
		return &execError{name, unix.ENOENT}
	}
	if strings.Contains(name, "/") {
		return executable(name, dir)
	}
	if path == "" {
		path = defaultPath
	}
	err := error(&execError{name, unix.ENOENT})
	for _, d := range filepath.SplitList(path) {
		switch found := executable(filepath.Join(d, name), dir).(type) {
		case nil:
			return nil
		case *execError:
			if found.err == unix.EACCES {
				err = &execError{name, unix.EACCES}
			}
		}
	}
	return err
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

// variable returns a variable of an environment, or "".
func variable(env []string, name string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}
