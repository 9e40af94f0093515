package runner

import (
	"net"
	"testing"
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
