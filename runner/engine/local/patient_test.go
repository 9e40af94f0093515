package local

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/spawn"
)

func TestWhatIsScarce(t *testing.T) {
	at := func(s spawn.Stage, e syscall.Errno) error { return &spawn.Error{Stage: s, Errno: e} }
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                    {nil, false},
		"processes":                  {at(spawn.Fork, unix.EAGAIN), true},
		"memory":                     {at(spawn.Fork, unix.ENOMEM), true},
		"forbidden":                  {at(spawn.Fork, unix.EPERM), false},
		"descriptors":                {at(spawn.Begin, unix.EMFILE), false},
		"somebody else's marker":     {at(spawn.Begin, unix.EEXIST), false},
		"processes, behind the mark": {at(spawn.Exec, unix.EAGAIN), false},
		"descriptors for its files":  {fmt.Errorf("cannot open log: %w", unix.EMFILE), true},
		"a log under a lease":        {unix.EAGAIN, false},
	} {
		if got := scarce(tt.err); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A start that cannot get a process is retried until it can or the attempt is stopped.
func TestStartsAgainWhenThereIsRoom(t *testing.T) {
	warned := 0
	k := &keeper{tell: func(m *message) { warned += len(m.Warnings) }}
	a := newAttempt(k, &engine.Launch{UniID: "u", Job: "j"}, nil)
	a.file = -1
	none, tries := &spawn.Error{Stage: spawn.Fork, Errno: unix.EAGAIN}, 0
	try := func() error {
		if tries++; tries < 3 {
			return none
		}
		return nil
	}
	if err := a.patient(try); err != nil || tries != 3 || warned != 1 {
		t.Errorf("got %v after %d tries, with %d warnings", err, tries, warned)
	}
	tries = 0
	a.requestStop(stopRequest{"gpurun stop", engine.Term})
	if err := a.patient(try); !errors.Is(err, none) || tries != 1 {
		t.Errorf("stopped: got %v after %d tries", err, tries)
	}
}
