package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// An UnknownError reports a running attempt whose job neither the ledger nor its record
// identifies.
type UnknownError struct {
	Dir string
	PID int
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("process %d is running a job whose start is not in the ledger (%s): wait for it to end, or kill it", e.PID, e.Dir)
}

// Trace reads an attempt's start from its record.
func (Kind) Trace(dir, uniID string) (state.Trace, error) {
	if _, err := os.Lstat(wire.Marker(dir, 0)); err != nil {
		return state.Trace{}, nil
	}
	rec, err := wire.ReadRecord(dir, uniID)
	if err != nil || rec.Of == nil || rec.Of.Key == "" {
		return state.Trace{Began: true}, unknown(dir, uniID)
	}
	o := rec.Of
	start := state.Fact{
		Kind: state.KindStart, Time: rec.Started.UTC(), Job: o.Job, Key: o.Key, UniID: uniID, Attempt: o.Attempt,
		GPUs: o.GPUs, GPUUUIDs: o.UUIDs, Memory: o.Memory, Log: o.Log, Needs: o.Needs,
	}
	run := state.Fact{Kind: state.KindRun, Host: o.Host, BootID: rec.BootID, PIDNS: o.PIDNS}
	return state.Trace{Began: true, Start: start, Run: run}, nil
}

// unknown returns an error while a process of the attempt is alive.
func unknown(dir, uniID string) error {
	for i := 0; ; i++ {
		p, err := wire.Begun(wire.Marker(dir, i))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && p.PID != 0 && procs.Alive(p) {
			return &UnknownError{Dir: dir, PID: p.PID}
		}
		if err != nil {
			break
		}
	}
	if named := procs.Named(uniID); len(named) > 0 {
		return &UnknownError{Dir: dir, PID: named[0].PID}
	}
	return nil
}

// keeperLinger is how long a keeper may take to exit once it has nothing left to do.
const keeperLinger = 2 * time.Second

// Stray returns the pid of a keeper of an earlier run in a state folder that has since
// been removed, or 0. Nobody can ask such a keeper about its jobs.
func (Kind) Stray(dir string) int {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		pid := strayKeeper(dir)
		if pid == 0 || time.Since(began) > keeperLinger {
			return pid
		}
	}
}

func strayKeeper(dir string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		args := strings.Split(string(b), "\x00")
		if err != nil || len(args) < 3 || !slices.Equal(args[:2], []string{"gpurun", "__keeper"}) || !isSocketOf(args[2], dir) {
			continue
		}
		if _, err := os.Lstat(args[2]); errors.Is(err, fs.ErrNotExist) {
			return pid
		}
	}
	return 0
}

// isSocketOf reports whether a path is that of a keeper's socket in the given state
// folder.
func isSocketOf(path, dir string) bool {
	name, ok := strings.CutPrefix(path, dir+"/keeper-")
	return ok && strings.HasSuffix(name, ".sock")
}
