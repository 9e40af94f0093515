package keeper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// How long a start waits for a process or descriptor, and how often it tries.
const (
	scarceFor   = time.Minute
	scarcePause = 100 * time.Millisecond // doubles each time,
	scarceMost  = 2 * time.Second        // up to this
)

// spareFiles is the number of descriptors that no attempt may take: without them this
// process could not read /proc, and would believe that running processes had ended.
const spareFiles = 8

// lastDescriptors reports whether these descriptors are among the last ones available: the
// kernel always assigns the lowest free one.
func (k *keeper) lastDescriptors(fds ...int) bool {
	return k.files > 0 && slices.Max(fds) >= k.files-spareFiles
}

// scarce reports whether err means that no process or descriptor was available: this user currently
// has too many, or the host has too little memory. Nothing has begun.
func scarce(err error) bool {
	var e *execError
	return host.OutOfFiles(err) || errors.As(err, &e) && (e.err == unix.EAGAIN || e.err == unix.ENOMEM)
}

// retryWhileScarce retries a step while processes or files are scarce. That is not the job's fault,
// and a whole batch would otherwise fail within seconds. It keeps waiting while other attempts are
// running, since these may end and make room.
func (a *attempt) retryWhileScarce(step func() error) error {
	err := step()
	if !scarce(err) {
		return err
	}
	if host.OutOfFiles(err) {
		a.k.warn([]string{fmt.Sprintf("jobs are waiting to start: too many open files (ulimit -n is %d)", a.k.files)})
	} else {
		a.k.warn([]string{fmt.Sprintf("%s: %v; retrying for at least a minute", a.Job, err)})
	}
	for pause, until := scarcePause, host.Boottime()+scarceFor; scarce(err) && (host.Boottime() < until || a.k.othersRun(a)); pause = min(2*pause, scarceMost) {
		select {
		case <-a.stops.Poked:
			if a.takeStops(); a.ending.On() {
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
	return slices.ContainsFunc(k.liveAttempts(), func(b *attempt) bool { return b != a && b.running.Load() != nil })
}
