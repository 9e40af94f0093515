package local

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/spawn"
)

// How long a start waits for a process, and how often it tries.
const (
	scarceFor   = time.Minute
	scarcePause = 100 * time.Millisecond // doubled each time,
	scarceMost  = 2 * time.Second        // and no longer than this
)

// scarce says that there was no process to be had: this user has too many, or the
// host too little memory, at the moment. Nothing has begun. Descriptors are another
// matter: attempts that wait for them hold those that they wait for.
func scarce(err error) bool {
	var e *spawn.Error
	return errors.As(err, &e) && e.Stage == spawn.Fork && (e.Errno == unix.EAGAIN || e.Errno == unix.ENOMEM)
}

// patient makes a step again while processes are scarce, for a while: it is no fault
// of the job's, and a whole batch would fail of it within seconds.
func (a *attempt) patient(step func() error) error {
	err := step()
	if !scarce(err) {
		return err
	}
	a.k.warn([]string{fmt.Sprintf("%s: %v; it is tried again for a minute", a.Job, err)})
	for pause, until := scarcePause, boottime()+scarceFor; scarce(err) && boottime() < until; pause = min(2*pause, scarceMost) {
		select {
		case <-a.stops:
			if a.takeStops(); a.ending.on {
				return err
			}
		case <-time.After(pause):
		}
		err = step()
	}
	return err
}
