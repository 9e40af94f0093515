package runner

import (
	"net"
	"os"
	"strconv"
	"strings"

	"gpurun/state/host"
)

// ports assigns a TCP port to each live attempt. It avoids the ephemeral range, from which the
// kernel assigns ports to other connections.
type ports struct {
	lo, hi int // lo <= port < hi
	next   int
	taken  map[int]bool
}

// Well-known services use ports below 10000.
const firstPort = 10000

func newPorts() *ports {
	p := &ports{lo: firstPort, hi: 32768, taken: map[int]bool{}}
	b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	first, _, _ := strings.Cut(string(b), "\t")
	if n, err := strconv.Atoi(first); err == nil && n > firstPort+1000 {
		p.hi = n
	}
	// Runs on the same host start at different ports, so that they rarely collide.
	p.next = p.lo + os.Getpid()*61%(p.hi-p.lo)
	return p
}

// take returns a port that is currently free, or 0 if there is none.
func (p *ports) take() int {
	for range p.hi - p.lo {
		n := p.next
		if p.next++; p.next >= p.hi {
			p.next = p.lo
		}
		if !p.taken[n] && bindable(n) {
			p.taken[n] = true
			return n
		}
	}
	return 0
}

func (p *ports) give(n int) { delete(p.taken, n) }

// bindable reports whether a port is free, over IPv4 and IPv6. Without a free file descriptor for
// the check, it assumes that the port is free.
func bindable(n int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(n))
	if err != nil {
		return host.OutOfFiles(err)
	}
	l.Close()
	return true
}
