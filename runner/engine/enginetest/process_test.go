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

// awaitGone waits for the end of a process.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); running(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still running", pid)
		}
	}
}

// running reports whether a process has not ended. A zombie counts as ended.
func running(pid int) bool {
	s, ok := host.StatOf(pid)
	return ok && s.State != 'Z' && s.State != 'X'
}

// gone checks that a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if running(pid) {
		t.Errorf("process %d is still running", pid)
	}
}
