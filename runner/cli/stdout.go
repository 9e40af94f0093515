package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// stdout is the standard output. Its pipe may be shared, and another process may make it
// non-blocking at any time. Package os checks that only once, so a full pipe would lose output.
type stdout struct{}

func (stdout) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = os.Stdout.Write(b[n:])
		if n += m; errors.Is(err, unix.EAGAIN) {
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(unix.Stdout), Events: unix.POLLOUT}}, -1); errors.Is(err, unix.EINTR) {
				err = nil
			}
		}
	}
	return n, err
}
