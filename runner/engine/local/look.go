package local

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// Looker returns a function that looks at the attempt in a folder.
func (Kind) Looker() func(dir, uniID string) engine.Found {
	l := looker{originals: map[written]string{}, writers: writers{}}
	return l.look
}

type looker struct {
	census    procs.Census
	originals map[written]string // results of writes
	writers   writers
}

// written is a journal that a keeper may write.
type written struct {
	keeper  int
	journal string
}

func (l *looker) look(dir, uniID string) engine.Found {
	rec, err := wire.Find(dir, uniID)
	if err == nil && rec.State == wire.StateOver {
		return engine.Found{Ended: &rec.End, Began: !rec.Void}
	}
	var f engine.Found
	missing := errors.Is(err, wire.ErrNoRecord) // if the record was removed, only processes show that the attempt began
	switch {
	case missing:
		rec = &wire.Record{}
	case err != nil:
		return f
	}
	roots := slices.DeleteFunc(rec.Roots, func(p procs.ID) bool { return p.PID == 0 })
	f.Began = rec.Begun > 0
	if rec.BootID != "" && rec.BootID != host.BootID() {
		return f // the machine has rebooted since
	}
	for i := len(roots) - 1; i >= 0 && f.PID == 0; i-- {
		if procs.Alive(roots[i]) {
			f.PID = roots[i].PID
		}
	}
	if f.PID == 0 && (f.Began || missing) {
		if ids := l.census.Tree(uniID, roots, time.Now().Add(-time.Second)); len(ids) > 0 {
			f.PID, f.Began = ids[0].PID, true
		}
	}
	if f.PID == 0 {
		// The attempt may have ended in the meantime.
		if rec, err := wire.Find(dir, uniID); err == nil && rec.State == wire.StateOver {
			return engine.Found{Ended: &rec.End, Began: !rec.Void}
		}
		if f.Began { // its keeper may still have to record its end
			if f.Keeper = l.writers.of(rec.Slot.Journal, rec.Boot); f.Keeper != 0 {
				f.PID = cmp.Or(rec.Roots[len(rec.Roots)-1].PID, f.Keeper)
			}
		}
		return f
	}
	if f.Keeper = ancestor(f.PID, isKeeper); f.Keeper == 0 {
		return f
	}
	by := written{f.Keeper, rec.Slot.Journal}
	if _, known := l.originals[by]; !known {
		_, l.originals[by] = writes(f.Keeper, rec.Slot.Journal)
	}
	f.Original = l.originals[by]
	return f
}
