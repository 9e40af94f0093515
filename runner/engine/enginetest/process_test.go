package enginetest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// hear waits until a job writes a PID to a FIFO, and returns it.
func hear(t *testing.T, path string) int {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) // read-write, so that opening does not block
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(patience))
	var pid int
	if _, err := fmt.Fscanln(f, &pid); err != nil {
		t.Fatalf("no PID arrived on %s: %v", path, err)
	}
	return pid
}

// readPID reads the PID that a job wrote to a file.
func (b *bench) readPID(path string) (pid int) {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscanln(string(text), &pid)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return pid
}

// awaitGone waits for the end of a process that is not a child of this one.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or the kernel is older than 5.3
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if n == 0 {
		t.Fatalf("process %d is still running", pid)
	}
}

// gone checks that a process has ended. A zombie counts as ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if s, ok := host.StatOf(pid); ok && s.State != 'Z' && s.State != 'X' {
		t.Errorf("process %d is still running", pid)
	}
}
