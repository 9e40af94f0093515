package local

import (
	"errors"
	"fmt"
	"slices"

	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

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
	t := rec.Of.Trace(uniID, rec.Started)
	t.Run.BootID = rec.BootID
	return t, nil
}

// unknown returns an error while a process of the attempt is alive, because neither the ledger nor
// the record identifies its job.
func unknown(rec *wire.Record, dir string) error {
	for _, p := range slices.Concat(rec.Roots, procs.Named(rec.UniID)) {
		if procs.Alive(p) {
			return fmt.Errorf("process %d runs a job whose start is not in the ledger (%s): "+
				"wait for the process to end, or kill it", p.PID, dir)
		}
	}
	return nil
}
