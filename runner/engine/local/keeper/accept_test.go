package keeper

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A cramped listener lacks descriptors for its first calls of Accept; fails is how many.
type cramped struct {
	fails int
	conns chan net.Conn
}

func (l *cramped) Accept() (net.Conn, error) {
	if l.fails > 0 {
		l.fails--
		return nil, unix.EMFILE
	}
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *cramped) Close() error   { return nil }
func (l *cramped) Addr() net.Addr { return nil }

// A keeper that ran out of descriptors must accept runners once there are descriptors again.
func TestAcceptContinuesAfterLackOfDescriptors(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	l := &cramped{fails: 2, conns: make(chan net.Conn)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.accept(l)
	}()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	select {
	case l.conns <- ours:
	case <-done:
		t.Fatal("accept returned after a lack of descriptors")
	}
	close(l.conns)
	<-done
}
