package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gpurun/state/host"
)

// A Call is a request that waits for its reply.
type Call struct {
	Request
	Reply chan<- Reply // buffered for one reply
}

// A Server receives the requests for a batch's run.
type Server struct {
	path  string // of the socket file
	l     *net.UnixListener
	calls chan<- *Call
	ctx   context.Context
	end   context.CancelFunc
	work  sync.WaitGroup
	start func(func())
}

// Listen opens the socket in the batch folder dir and sends requests to calls. It replaces an
// existing socket: the caller holds the batch's lock, so that socket belongs to a dead run. start
// starts a goroutine and handles its panics.
func Listen(dir string, calls chan<- *Call, start func(func())) (*Server, error) {
	s := &Server{path: filepath.Join(dir, socketName), calls: calls, start: start}
	var err error
	if s.l, err = bind(s.path); err != nil {
		s.path = fallbackPaths(dir)[0]
		other := makeFolder(s.path)
		if other == nil {
			s.l, other = bind(s.path)
		}
		if other != nil {
			return nil, fmt.Errorf("%w (fallback: %w)", err, other)
		}
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.spawn(s.accept)
	return s, nil
}

// bind opens a socket in place of any leftover one.
func bind(path string) (*net.UnixListener, error) {
	var l *net.UnixListener
	err := host.ShortPath(path, func(name string) (err error) {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("cannot replace %s: %w", path, err)
		}
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}); err != nil {
			return fmt.Errorf("cannot listen on %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path that l knows goes through a descriptor that ShortPath closes
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return l, nil
}

// Close stops listening and removes the socket. It drops requests that the run has not received.
func (s *Server) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.end()
	err := s.l.Close()
	s.work.Wait()
	os.Remove(s.path)
	return err
}

// spawn starts a goroutine that Close waits for.
func (s *Server) spawn(f func()) {
	s.work.Add(1)
	s.start(func() {
		defer s.work.Done()
		f()
	})
}

func (s *Server) accept() {
	for {
		c, err := s.l.AcceptUnix()
		if err == nil {
			s.spawn(func() { s.serve(c) })
			continue
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(100 * time.Millisecond): // gpurun may be out of file descriptors, so wait before the next try
		}
	}
}

// serve passes one request to the run and sends back the reply. It disconnects a peer that sends
// nothing.
func (s *Server) serve(c *net.UnixConn) {
	defer c.Close()
	if !host.SameUser(c) {
		return
	}
	c.SetDeadline(time.Now().Add(patience))
	stop := context.AfterFunc(s.ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) }) // a silent peer must not delay Close
	defer stop()
	reply := make(chan Reply, 1)
	call := &Call{Reply: reply}
	if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&call.Request); err != nil {
		return
	}
	select {
	case s.calls <- call:
	case <-s.ctx.Done():
		return
	}
	select {
	case r := <-reply:
		r.PID = os.Getpid()
		r.pack() // here rather than in the run's loop, which must not block
		c.SetDeadline(time.Now().Add(patience))
		_ = json.NewEncoder(c).Encode(r)
	case <-s.ctx.Done():
	}
}
