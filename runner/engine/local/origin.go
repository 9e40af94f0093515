package local

import (
	"errors"
	"fmt"

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
	return fmt.Sprintf("process %d runs a job whose start is not in the ledger (%s): wait for the process to end, or kill it", e.PID, e.Dir)
}

// Trace reads an attempt's start from its record.
func (Kind) Trace(dir, uniID string) (state.Trace, error) {
	rec, err := wire.Find(dir, uniID)
	switch {
	case errors.Is(err, wire.ErrNoRecord), err == nil && rec.Begun == 0:
		return state.Trace{}, nil
	case err != nil:
		return state.Trace{}, err
	case rec.Of == nil || rec.Of.Key == "":
		return state.Trace{Began: true}, unknown(rec, dir)
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
func unknown(rec *wire.Record, dir string) error {
	for _, p := range rec.Roots {
		if procs.Alive(p) {
			return &UnknownError{Dir: dir, PID: p.PID}
		}
	}
	if named := procs.Named(rec.UniID); len(named) > 0 {
		return &UnknownError{Dir: dir, PID: named[0].PID}
	}
	return nil
}
