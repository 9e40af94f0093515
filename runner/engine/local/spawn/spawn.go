// Package spawn starts a process in such a way that there is never any doubt whether it
// began: before the program's first instruction, the child itself leaves a marker, begun,
// that can be created only once. The package knows nothing about jobs.
package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Request is a program to start. It inherits only Files, provided that every other
// descriptor of this process is close-on-exec.
type Request struct {
	Path    string   // of the program; PATH is not searched
	Argv    []string // as the program sees it, including Argv[0]
	Env     []byte   // NAME=value, each terminated by a NUL byte
	Dir     string   // working directory
	Files   [3]int   // descriptors for 0, 1 and 2: each above 2, or already in place
	Begun   string   // path of the marker
	Session bool     // in its own session, without a terminal
	NoFile  uint64   // soft limit of open files; 0 to leave it unchanged

	// PID, if not nil, receives the pid as soon as the process exists, while Start is
	// still waiting for it to execute its program.
	PID *atomic.Int32
}

// A Process is identified by its pid and its start time, in clock ticks after boot: the
// pid alone may have been reused by now.
type Process struct {
	PID   int
	Start uint64
}

// A Stage is a step of the child before the program runs.
type Stage int

// The stages, in order.
const (
	Fork Stage = iota
	Session
	Begin
	Input
	Limit
	Chdir
	Exec
)

// An Error tells which stage of a start failed. Begin with EEXIST means that somebody
// else created the marker: the program must not run, and has not.
type Error struct {
	Stage Stage
	Path  string // path that could not be used, or ""
	Errno syscall.Errno
}

func (e *Error) Error() string {
	what := [...]string{"cannot fork", "cannot create a session", "cannot mark the start", "cannot redirect output",
		"cannot set the limit of open files", "cannot enter the working directory", "cannot execute"}[e.Stage]
	if e.Path == "" {
		return fmt.Sprintf("%s: %s", what, e.Errno.Error())
	}
	return fmt.Sprintf("%s %q: %s", what, e.Path, e.Errno.Error())
}

func (e *Error) Unwrap() error { return e.Errno }

// Start starts the program. It returns when the program is running or definitely never
// will. In that case the error is an *Error and the child has been reaped, or the error
// is about a string with a NUL byte. The caller waits for the process.
func Start(r *Request) (Process, error) {
	c, err := newChild(r)
	if err != nil {
		return Process{}, err
	}
	return c.start(r)
}

func (c *child) start(r *Request) (Process, error) {
	// syscall.ForkLock is not needed, since every descriptor here is opened with
	// close-on-exec, and would keep others from starting until this child has executed.
	pid, errno := fork(c)
	runtime.KeepAlive(r)
	if errno != 0 {
		return Process{}, &Error{Stage: Fork, Errno: errno}
	}
	if c.errno != 0 {
		reap(pid)
		return Process{}, &Error{Stage: c.stage, Path: c.stage.path(r), Errno: c.errno}
	}
	start := c.began
	if start == 0 {
		p, err := parseStat(c.stat[:c.statLen])
		if err != nil {
			return Process{PID: pid}, nil
		}
		start = p.Start
	}
	return Process{PID: pid, Start: start}, nil
}

func (s Stage) path(r *Request) string {
	switch s {
	case Begin:
		return r.Begun
	case Chdir:
		return r.Dir
	case Exec:
		return r.Path
	}
	return ""
}

// reap waits for a child that never executed its program. Somebody who waits for all
// children may have reaped it already.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// newChild prepares everything the child will need: between fork and exec it cannot
// allocate.
func newChild(r *Request) (*child, error) {
	c := &child{session: r.Session, parent: uintptr(os.Getpid()), files: r.Files, noFile: r.NoFile}
	var err error
	if c.path, err = syscall.BytePtrFromString(r.Path); err != nil {
		return nil, fmt.Errorf("cannot execute %q: its name has a NUL byte", r.Path)
	}
	if c.argv, err = syscall.SlicePtrFromStrings(r.Argv); err != nil {
		return nil, fmt.Errorf("cannot execute %q: an argument has a NUL byte", r.Path)
	}
	if c.dir, err = syscall.BytePtrFromString(r.Dir); err != nil {
		return nil, fmt.Errorf("cannot enter %q: its name has a NUL byte", r.Dir)
	}
	if c.begun, err = syscall.BytePtrFromString(r.Begun); err != nil {
		return nil, fmt.Errorf("cannot mark the start in %q: its name has a NUL byte", r.Begun)
	}
	c.envv = pointers(r.Env)
	c.pid = new(int32)
	if r.PID != nil {
		c.pid = (*int32)(unsafe.Pointer(r.PID))
	}
	c.clone = cloneArgs{cloneFlags: vforkFlags | clearSighand, parentTID: uint64(uintptr(unsafe.Pointer(c.pid))), exitSignal: uint64(unix.SIGCHLD)}
	return c, nil
}

// pointers returns a vector of pointers to the strings in env.
func pointers(env []byte) []*byte {
	v := make([]*byte, 0, bytes.Count(env, []byte{0})+1)
	for len(env) > 0 {
		n := bytes.IndexByte(env, 0)
		if n < 0 {
			break
		}
		if n > 0 {
			v = append(v, &env[0])
		}
		env = env[n+1:]
	}
	return append(v, nil)
}
