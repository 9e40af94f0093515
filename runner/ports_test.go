package runner

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A port is in use even if it is bound to only one address, over IPv4 or IPv6.
func TestJobsGetOnlyFreePorts(t *testing.T) {
	for _, at := range []struct{ network, address string }{
		{"tcp", ":0"}, {"tcp4", ":0"}, {"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"},
	} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			t.Logf("%s %s: %v", at.network, at.address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if bindable(port) {
			t.Errorf("%s %s: port %d is in use but was reported free", at.network, at.address, port)
		}
		l.Close()
		if !bindable(port) {
			t.Errorf("%s %s: port %d is free but was reported in use", at.network, at.address, port)
		}
	}
}

// A job that starts while there is no descriptor to check its port must still get one.
func TestScarceDescriptorsLeavePorts(t *testing.T) {
	p := newPorts()
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	few := all
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &all) }()
	for fd, err := unix.Dup(2); err == nil; fd, err = unix.Dup(2) {
		defer unix.Close(fd)
	}
	if a, b := p.take(), p.take(); a == 0 || b == 0 || a == b {
		t.Errorf("got ports %d and %d", a, b)
	}
}
