package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A Call is one request that waits for its reply.
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
	dir   string
	l     *net.UnixListener
	calls chan *Call
	ctx   context.Context
	end   context.CancelFunc
	conns sync.WaitGroup
	once  sync.Once
}

// Listen opens the socket in dir. A socket that a dead run has left is replaced:
// the caller holds the batch's lock, so that it cannot be a live one's.
func Listen(dir string) (*Server, error) {
	path, done, err := within(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("cannot replace %s: %w", socketPath(dir), err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", socketPath(dir), err)
	}
	l.SetUnlinkOnClose(false) // its path was through a descriptor that is closed by then
	s := &Server{dir: dir, l: l, calls: make(chan *Call)}
	s.ctx, s.end = context.WithCancel(context.Background())
	if err := os.Chmod(socketPath(dir), 0o600); err != nil {
		s.Close()
		return nil, err
	}
	s.conns.Add(1)
	go s.accept()
	return s, nil
}

// Requests is where calls arrive. It is closed by Close.
func (s *Server) Requests() <-chan *Call { return s.calls }

// Close stops listening and removes the socket. Calls that nobody has taken are dropped.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.end()
		err = s.l.Close()
		s.conns.Wait()
		close(s.calls)
		os.Remove(socketPath(s.dir))
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
			case <-time.After(100 * time.Millisecond): // out of descriptors, say
				continue
			}
		}
		s.conns.Add(1)
		go s.serve(c)
	}
}

// serve carries one request to the run and its reply back. A peer that says
// nothing is let go.
func (s *Server) serve(c *net.UnixConn) {
	defer s.conns.Done()
	defer c.Close()
	if !sameUser(c) {
		return
	}
	c.SetDeadline(time.Now().Add(patience))
	stop := context.AfterFunc(s.ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) }) // a silent peer holds up nobody's end
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

// NewCall makes a call without a connection, for whoever serves calls and is
// tested; its reply comes over the channel.
func NewCall(r Request) (*Call, <-chan Reply) {
	c := &Call{Request: r, reply: make(chan Reply, 1)}
	return c, c.reply
}
