package local

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sockets returns the two ends of a connection.
func sockets(t *testing.T) (ours, theirs *socket) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*socket
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if ends[i], err = newSocket(c.(*net.UnixConn)); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}

// Data that exceeds the buffer arrives whole if the other side reads from time to time.
func TestSocketWaitsForRoom(t *testing.T) {
	ours, theirs := sockets(t)
	want := bytes.Repeat([]byte("0123456789"), 200_000)
	sent := make(chan error, 1)
	go func() {
		n, err := ours.Write(want)
		if err == nil && n != len(want) {
			err = io.ErrShortWrite
		}
		sent <- errors.Join(err, ours.Close())
	}()
	got, err := io.ReadAll(theirs)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := theirs.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("to nobody: %v", err)
	}
	theirs.Close()
}

// After the deadline, nobody waits for a side that does not read.
func TestSocketDeadline(t *testing.T) {
	ours, theirs := sockets(t)
	defer theirs.Close()
	defer ours.Close()
	wrote := make(chan error, 1)
	go func() {
		_, err := ours.Write(make([]byte, 8<<20))
		wrote <- err
	}()
	_ = ours.SetWriteDeadline(time.Now())
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if n, err := ours.sendNow([]byte("x")); n != 0 || err != unix.EAGAIN {
		t.Errorf("sendNow into a full socket: %d, %v", n, err)
	}
}

// Close ends a pending Read, and a Read after the last data returns EOF.
func TestSocketEnds(t *testing.T) {
	ours, theirs := sockets(t)
	read := make(chan error)
	go func() {
		var b [10]byte
		for {
			if _, err := ours.Read(b[:]); err != nil {
				read <- err
				return
			}
		}
	}()
	if _, err := theirs.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("of a closed connection: %v", err)
	}
	theirs.Close()
}

// A side is notified only of arriving data, not when the other side reads.
func TestSocketIsWokenByInputAlone(t *testing.T) {
	ours, theirs := sockets(t)
	defer theirs.Close()
	defer ours.Close()
	news := func() int {
		var ev [4]unix.EpollEvent
		n, err := unix.EpollWait(int(ours.epoll.Fd()), ev[:], 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := ours.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if n := news(); n != 0 {
		t.Errorf("%d events of what the other side has read", n)
	}
	if _, err := theirs.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if n := news(); n != 1 {
		t.Errorf("%d events of what has arrived, want 1", n)
	}
}
