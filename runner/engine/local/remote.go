package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state/host"
)

// A remote is the runner's side of the connection to a keeper.
type remote struct {
	link *wire.Link
	gone chan struct{} // closed when its last message has been handled

	socket string        // socket it listens on, or ""
	pid    int           // 0 if unknown
	heard  atomic.Uint64 // number of messages received
	known  uint64        // value of heard at the last pulse
	quiet  int           // pulses since heard last changed
	newer  bool          // its messages have a later version; Local.mu guards it
}

func (r *remote) close() {
	r.link.Close()
	<-r.gone
}

func (l *Local) connect(c net.Conn, socket string) *remote {
	r := &remote{link: wire.NewLink(c, l.Go), gone: make(chan struct{}), socket: socket}
	l.start(func() {
		err := r.link.Receive(func(m *wire.Message) {
			r.heard.Add(1)
			if m.Version <= wire.Version {
				l.handle(r, m)
			} else {
				l.leave(r, m.Version)
			}
		})
		close(r.gone)
		r.link.Close()
		l.Log.Debug().Err(err).Msg("keeper connection ended")
		l.awaitExit(r)
		l.lost(r)
	})
	return r
}

// leave disconnects from a newer keeper, which exits after its last job only if no runner is
// connected.
func (l *Local) leave(r *remote, version int) {
	l.mu.Lock()
	again := r.newer
	r.newer = true
	l.mu.Unlock()
	if again {
		return
	}
	l.emit(engine.Event{Warnings: []string{fmt.Sprintf("a newer gpurun runs jobs of an earlier run (%s, version %d; this gpurun supports up to %d): waiting until they end; to stop them, use the newer gpurun", r.socket, version, wire.Version)}})
	r.link.Close()
}

// awaitExit waits until a newer keeper has exited. By then, the records of its jobs show how they
// ended.
func (l *Local) awaitExit(r *remote) {
	for r.newer {
		c, err := dial(r.socket)
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
			return
		}
		if err == nil {
			c.Close()
			r.heard.Add(1)
		}
		select {
		case <-l.stop:
			return
		case <-time.After(pulseEvery):
		}
	}
}

const socketPattern = "keeper-*.sock"

// findKeepers connects to every keeper of an earlier run. If no process listens on a socket, its
// keeper was killed. Any other failure to connect is an error, because the attempts of a live
// keeper must not be mistaken for orphans.
func (l *Local) findKeepers() error {
	paths, _ := filepath.Glob(filepath.Join(escape(l.Dir), socketPattern))
	for _, path := range paths {
		c, err := dial(path)
		switch {
		case err == nil && !host.SameUser(c):
			// The jobs are found through their records instead.
			c.Close()
			l.emit(engine.Event{Warnings: []string{path + ": ignored because another user is listening on it; remove it"}})
		case err == nil:
			l.mu.Lock()
			r := l.connect(c, path)
			l.others[r] = true
			l.mu.Unlock()
		case errors.Is(err, unix.ECONNREFUSED):
			_ = os.Remove(path)
		case errors.Is(err, unix.ENOENT): // it exited just now
		default:
			return fmt.Errorf("cannot reach the keeper of an earlier run: %w", err)
		}
	}
	return nil
}

// reach returns the keeper of an earlier run's attempt if the keeper's socket is in the folder of
// another job file of the same run. It returns nil if there is no such keeper, or if reach was
// called before for this attempt. l.mu is held.
func (l *Local) reach(e *entry) *remote {
	if e.reached {
		return nil
	}
	e.reached = true
	rec, err := wire.Find(e.Dir, e.UniID)
	if err != nil {
		return nil
	}
	socket, ok := socketOf(l.writers.of(rec.Slot.Journal, rec.Boot))
	if !ok || filepath.Dir(socket) == l.Dir {
		return nil
	}
	for r := range l.others {
		if r.socket == socket {
			return r
		}
	}
	c, err := dial(socket)
	if err != nil {
		return nil
	}
	if !host.SameUser(c) {
		c.Close()
		return nil
	}
	r := l.connect(c, socket)
	l.others[r] = true
	return r
}

// escape escapes the special characters in a folder's name, for use in a pattern.
func escape(dir string) string {
	var b []byte
	for i := range len(dir) {
		if c := dir[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, dir[i])
	}
	return string(b)
}

func dial(path string) (net.Conn, error) {
	var c net.Conn
	err := host.ShortPath(path, func(name string) (err error) {
		c, err = net.Dial("unix", name)
		return err
	})
	return c, err
}

// listen creates a keeper's socket, which only this user may connect to.
func listen(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	err = host.ShortPath(path, func(name string) error {
		if err := unix.Fchmod(fd, 0o600); err != nil { // bind uses this mode
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return err
		}
		return unix.Listen(fd, 128)
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// startKeeper starts a keeper for this run. Its connection can be used immediately; messages wait
// until the keeper reads them.
func (l *Local) startKeeper() (*remote, error) {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot create a connection: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "runner")
	defer mine.Close()
	defer theirs.Close()
	socket := filepath.Join(l.Dir, fmt.Sprintf("keeper-%x.sock", id))
	var listener *os.File
	if l.Dir == "" {
		socket = "" // there will be no later run
	} else if listener, err = listen(socket); err != nil {
		// Without a socket, a later run finds the jobs through their records.
		l.Log.Warn().Err(err).Str("socket", socket).Msg("cannot create the socket for later runs")
	}
	defer listener.Close() // nil is fine
	pid, err := l.execKeeper(theirs, listener, socket)
	if err != nil {
		_ = os.Remove(socket)
		return nil, err
	}
	c, err := net.FileConn(mine)
	if err != nil {
		return nil, fmt.Errorf("cannot create a connection: %w", err)
	}
	r := l.connect(c, socket)
	r.pid = pid
	return r, r.link.Send(&wire.Message{Op: wire.Environ, Launch: &engine.Launch{Command: engine.Command{Env: l.Environ}}})
}

func (l *Local) execKeeper(conn, listener *os.File, socket string) (pid int, err error) {
	var log *os.File
	if l.Dir == "" {
		log, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	} else {
		log, err = host.OpenOwn(filepath.Join(l.Dir, "keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot open the keeper's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", "__keeper", socket)
	if l.Bound {
		cmd.Args = append(cmd.Args, wire.Bound)
	}
	cmd.Args[0] = "gpurun"
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{conn}
	if listener != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, listener)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go cmd.Wait() // reap it if it ends before this process
	return cmd.Process.Pid, nil
}
