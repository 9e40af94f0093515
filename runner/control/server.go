package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"gpurun/state/host"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Call is a request that is waiting for its reply.
type Call struct {
	Request
	reply chan Reply
}

// Reply answers the call; a second answer is dropped.
func (c *Call) Reply(r Reply) {
	r.PID = os.Getpid()
	select {
	case c.reply <- r:
	default:
	}
}

// A Server listens in the folder of a batch.
type Server struct {
	path  string   // of the socket
	addr  *os.File // the address, locked; nil if it could not be written
	dir   string
	l     *net.UnixListener
	calls chan *Call
	ctx   context.Context
	end   context.CancelFunc
	conns sync.WaitGroup
	start func(func())
	once  sync.Once
}

// Listen opens the socket in dir, and replaces one that a dead run left: the caller holds
// the batch's lock, so it cannot belong to a live one. start starts a goroutine and
// handles its panics; nil for a plain one.
func Listen(dir string, start func(func())) (*Server, error) {
	if start == nil {
		start = func(f func()) { go f() }
	}
	s := &Server{start: start, dir: dir, path: socketPath(dir), calls: make(chan *Call)}
	at := here("")
	var err error
	if s.l, err = bind(socketPath(dir)); err != nil {
		if at.Socket, err = elsewhere(dir, err); err != nil {
			return nil, err
		}
		s.path = at.Socket
		if s.l, err = bind(s.path); err != nil {
			return nil, err
		}
	}
	// Without the address, only other hosts miss the run, and those who must look for
	// the socket elsewhere.
	if s.addr, err = at.publish(dir); err != nil && at.Socket != "" {
		return nil, errors.Join(fmt.Errorf("cannot record in %s where the socket is: %w", dir, err), s.l.Close(), os.Remove(s.path))
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.conns.Add(1)
	s.start(s.accept)
	return s, nil
}

// bind opens a socket, and replaces a leftover one.
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
	l.SetUnlinkOnClose(false) // its path goes through a descriptor that is closed by then
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return l, nil
}

// Requests returns the channel on which calls arrive. Close closes it.
func (s *Server) Requests() <-chan *Call { return s.calls }

// Close stops listening and removes the socket. It drops calls that nobody has received.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.end()
		err = s.l.Close()
		s.conns.Wait()
		close(s.calls)
		os.Remove(s.path)
		if s.addr != nil {
			os.Remove(filepath.Join(s.dir, addressName))
			s.addr.Close()
		}
	})
	return err
}

func (s *Server) accept() {
	defer s.conns.Done()
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond): // e.g. out of descriptors
				continue
			}
		}
		s.conns.Add(1)
		s.start(func() { s.serve(c) })
	}
}

// serve passes one request to the run, and its reply back. It drops a silent peer.
func (s *Server) serve(c *net.UnixConn) {
	defer s.conns.Done()
	defer c.Close()
	if !host.SameUser(c) {
		return
	}
	c.SetDeadline(time.Now().Add(patience))
	stop := context.AfterFunc(s.ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) }) // a silent peer must not delay Close
	defer stop()
	call := &Call{reply: make(chan Reply, 1)}
	if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&call.Request); err != nil {
		return
	}
	select {
	case s.calls <- call:
	case <-s.ctx.Done():
		return
	}
	select {
	case r := <-call.reply:
		c.SetDeadline(time.Now().Add(patience))
		_ = json.NewEncoder(c).Encode(r)
	case <-s.ctx.Done():
	}
}

// NewCall returns a call without a connection, for tests of code that serves calls. Its
// reply arrives on the channel.
func NewCall(r Request) (*Call, <-chan Reply) {
	c := &Call{Request: r, reply: make(chan Reply, 1)}
	return c, c.reply
}
