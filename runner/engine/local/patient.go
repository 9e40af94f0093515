package local

import (
	"errors"
	"fmt"
	"slices"
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

// spareFiles are descriptors that no attempt may take: without them this process could
// not read /proc, and would take what runs for what has ended.
const spareFiles = 8

// crowded reports whether these descriptors are among the last that there are: the
// kernel gives the lowest that is free.
func (k *keeper) crowded(fds ...int) bool {
	return k.files > 0 && slices.Max(fds) >= k.files-spareFiles
}

// outOfFiles reports whether there was no descriptor to be had.
func outOfFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// scarce reports whether there was no process or no descriptor to be had: this user
// has too many, or the host too little memory, at the moment. Nothing has begun.
func scarce(err error) bool {
	var e *spawn.Error
	if !errors.As(err, &e) {
		return outOfFiles(err)
	}
	return e.Stage == spawn.Fork && (e.Errno == unix.EAGAIN || e.Errno == unix.ENOMEM)
}

// patient makes a step again while processes or files are scarce: it is no fault of
// the job's, and a whole batch would fail of it within seconds. Where other attempts
// run, one of which may end and make room, it waits for as long as they do.
func (a *attempt) patient(step func() error) error {
	err := step()
	if !scarce(err) {
		return err
	}
	if outOfFiles(err) {
		a.k.warn([]string{fmt.Sprintf("jobs wait for their start: too many open files (ulimit -n is %d)", a.k.files)})
	} else {
		a.k.warn([]string{fmt.Sprintf("%s: %v; it is tried again for a minute", a.Job, err)})
	}
	for pause, until := scarcePause, boottime()+scarceFor; scarce(err) && (boottime() < until || a.k.othersRun(a)); pause = min(2*pause, scarceMost) {
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

// othersRun reports whether another attempt has a process.
func (k *keeper) othersRun(a *attempt) bool {
	return slices.ContainsFunc(k.living(), func(b *attempt) bool { return b != a && b.running.Load() != nil })
}
