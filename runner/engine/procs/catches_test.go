package procs

import (
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCatchesReadsSignalMasks(t *testing.T) {
	// The Go runtime catches nearly all signals, unless they are ignored.
	signal.Ignore(unix.SIGUSR2)
	defer signal.Reset(unix.SIGUSR2)
	for sig, want := range map[unix.Signal]bool{unix.SIGUSR1: true, unix.SIGUSR2: false, unix.SIGKILL: false, 0: false} {
		if got := Catches(os.Getpid(), sig); got != want {
			t.Errorf("Catches(%v) = %v, want %v", sig, got, want)
		}
	}
	if Catches(1<<22+1, unix.SIGUSR1) {
		t.Error("a process that does not exist catches a signal")
	}
}
