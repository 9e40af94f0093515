package procs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Describe formats processes as "python 4711 and 3 more".
func Describe(ids []ID, first ...ID) string {
	main := append(first, ids[0])[0]
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(main.PID) + "/comm")
	text := strings.TrimSpace(strings.TrimSpace(string(name)) + " " + strconv.Itoa(main.PID))
	if n := len(ids) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Await returns when all these processes have ended, or at quit.
func Await(ids []ID, quit <-chan struct{}) {
	const look = time.Second
	for _, id := range ids {
		for Alive(id) {
			if !awaitOne(id, look/4) {
				select {
				case <-quit:
					return
				case <-time.After(look):
				}
			}
			select {
			case <-quit:
				return
			default:
			}
		}
	}
}

// mostAwaited bounds how many descriptors awaitOne uses, because other work needs the rest.
var mostAwaited = make(chan struct{}, 16)

// awaitOne waits up to d for one process to end. It returns false if the kernel does not support
// that, or if too many other calls are waiting.
func awaitOne(id ID, d time.Duration) bool {
	select {
	case mostAwaited <- struct{}{}:
		defer func() { <-mostAwaited }()
	default:
		return false
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(d.Milliseconds()))
	return err == nil || err == unix.EINTR
}
