package keeper

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

func TestScarceErrorsAreRetried(t *testing.T) {
	at := func(e syscall.Errno) error { return &execError{"/bin/sh", e} }
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                  {nil, false},
		"processes":                 {at(unix.EAGAIN), true},
		"memory":                    {at(unix.ENOMEM), true},
		"no permission":             {at(unix.EPERM), false},
		"no such program":           {at(unix.ENOENT), false},
		"descriptors for its files": {fmt.Errorf("cannot open log: %w", unix.EMFILE), true},
		"a log under a lease":       {unix.EAGAIN, false},
	} {
		if got := scarce(tt.err); got != tt.want {
			t.Errorf("%s: scarce is %v, want %v", name, got, tt.want)
		}
	}
}

// A start that cannot create a process is retried until it succeeds or the attempt is stopped.
func TestStartIsRetriedUntilThereIsRoom(t *testing.T) {
	warned := 0
	k := &keeper{tell: func(m *wire.Message) { warned += len(m.Warnings) }}
	a := newAttempt(k, &engine.Launch{Identity: engine.Identity{UniID: "u", Job: "j"}})
	none, tries := &execError{"/bin/sh", unix.EAGAIN}, 0
	try := func() error {
		if tries++; tries < 3 {
			return none
		}
		return nil
	}
	if err := a.retryWhileScarce(try); err != nil || tries != 3 || warned != 1 {
		t.Errorf("got %v after %d tries, with %d warnings, want success after 3, with 1", err, tries, warned)
	}
	tries = 0
	a.stops.Put(&wire.Message{Why: "gpurun stop", How: engine.Term})
	if err := a.retryWhileScarce(try); !errors.Is(err, none) || tries != 1 {
		t.Errorf("stopped: got %v after %d tries, want %v after 1", err, tries, none)
	}
}
