package local

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A socket is a connection that wakes this process only when data arrives. Package net
// is also notified of free buffer space each time the other side has read something: two
// processes that exchange short messages would wake each other for nothing as often as
// for a message. So an epoll that watches for input only sits between the socket and the
// runtime's own epoll.
//
// One goroutine reads, another writes and closes. sendNow and SetWriteDeadline may be
// called concurrently until Close is called.
type socket struct {
	fd    int
	epoll *os.File
	input syscall.RawConn // of the epoll
	until atomic.Int64    // write deadline, Unix time in ns; 0 for none
}

// newSocket takes over a connection: if there is no error, c is closed.
func newSocket(c *net.UnixConn) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{}
	var dup error
	err = raw.Control(func(fd uintptr) { s.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	if dup != nil {
		return nil, os.NewSyscallError("fcntl", dup)
	}
	if err := s.listen(); err != nil {
		_ = unix.Close(s.fd)
		return nil, err
	}
	_ = c.Close()
	return s, nil
}

// listen creates the epoll, in non-blocking mode so that the runtime can wait for it.
// Package net has already made the socket non-blocking.
func (s *socket) listen() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(s.fd)}
	if err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, s.fd, &e); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("epoll_ctl", err)
	}
	s.epoll = os.NewFile(uintptr(fd), "epoll")
	// Deadlines work only if the runtime was able to add the file to its own epoll.
	if err = s.epoll.SetReadDeadline(time.Time{}); err == nil {
		s.input, err = s.epoll.SyscallConn()
	}
	if err != nil {
		_ = s.epoll.Close()
	}
	return err
}

func (s *socket) Read(p []byte) (n int, err error) {
	closed := s.input.Read(func(uintptr) bool {
		n, err = ignoringEINTR(func() (int, error) { return unix.Read(s.fd, p) })
		return err != unix.EAGAIN
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// sendNow writes as much as there is room for. It never blocks.
func (s *socket) sendNow(p []byte) (int, error) {
	return ignoringEINTR(func() (int, error) {
		n, err := unix.SendmsgN(s.fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return max(n, 0), err
	})
}

// Write writes all of p, waiting for room until the deadline.
func (s *socket) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := s.sendNow(p[n:])
		n += m
		if err == unix.EAGAIN {
			err = s.room()
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// room waits for free buffer space. The deadline may change meanwhile.
func (s *socket) room() error {
	wait := time.Second
	if until := s.until.Load(); until != 0 {
		if wait = min(wait, time.Until(time.Unix(0, until))); wait <= 0 {
			return os.ErrDeadlineExceeded
		}
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}, int(wait.Milliseconds())+1)
	if err == unix.EINTR {
		err = nil
	}
	return os.NewSyscallError("poll", err)
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.until.Store(t.UnixNano())
	return nil
}

// Close unblocks a pending Read.
func (s *socket) Close() error {
	_ = s.epoll.Close() // returns when nobody is reading any more
	return os.NewSyscallError("close", unix.Close(s.fd))
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
