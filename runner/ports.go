package runner

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ports gives each live attempt its own TCP port, outside the ephemeral range, from
// which the kernel could assign it to another connection.
type ports struct {
	mu     sync.Mutex // attempts are prepared outside the loop
	lo, hi int        // lo <= port < hi
	next   int
	taken  map[int]bool
}

// Well-known services use ports below 10000.
const firstPort = 10000

func newPorts() *ports {
	p := &ports{lo: firstPort, hi: ephemeralStart(), taken: map[int]bool{}}
	// Runs on one host begin at different ports, so they rarely collide.
	p.next = p.lo + os.Getpid()*61%(p.hi-p.lo)
	return p
}

func ephemeralStart() int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if f := strings.Fields(string(b)); err == nil && len(f) == 2 {
		if n, err := strconv.Atoi(f[0]); err == nil && n > firstPort+1000 {
			return n
		}
	}
	return 32768
}

// take returns a port that is free now, or 0 if there is none.
func (p *ports) take() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.hi - p.lo {
		n := p.next
		p.next++
		if p.next >= p.hi {
			p.next = p.lo
		}
		if !p.taken[n] && bindable(n) {
			p.taken[n] = true
			return n
		}
	}
	return 0
}

func (p *ports) give(n int) {
	p.mu.Lock()
	delete(p.taken, n)
	p.mu.Unlock()
}

// bindable reports whether nobody is listening on a port, over IPv4 or IPv6. It only
// binds, which is enough and cheap, because it runs at every start.
func bindable(n int) bool {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return bindable4(n)
	}
	defer unix.Close(s)
	_ = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // ports in TIME_WAIT are free
	switch err := unix.Bind(s, &unix.SockaddrInet6{Port: n}); err {
	case nil:
		return true
	case unix.EADDRNOTAVAIL: // IPv6 is disabled
		return bindable4(n)
	default:
		return false
	}
}

func bindable4(n int) bool {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(s)
	_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	return unix.Bind(s, &unix.SockaddrInet4{Port: n}) == nil
}
