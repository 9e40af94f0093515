package local

import (
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
)

// A Found is what can be seen of an attempt that no runner looks after. With
// neither Ended nor PID nothing of it lives, and no end is on record.
type Found struct {
	Ended  *engine.Ended // it is over, and this is its record
	PID    int           // its first process, or another of its tree, lives
	Keeper int           // pid of the keeper that it runs under; 0 when that is gone
	Began  bool          // something of it ran
}

// A Looker sees what has become of attempts, and changes nothing: what it finds is
// true for the moment, and the next run finds out by itself.
type Looker struct{ census census }

// Look sees what has become of the attempt in a folder.
func (l *Looker) Look(dir, uniID string) Found {
	rec, err := readRecord(dir, uniID)
	if err == nil && rec.State == recordEnded {
		return Found{Ended: rec.ended(), Began: !rec.Void}
	}
	var f Found
	var roots []procs.ID
	for i := 0; ; i++ {
		p, err := spawn.Begun(marker(dir, i))
		if err != nil {
			break
		}
		f.Began = true
		if p.PID != 0 {
			roots = append(roots, p)
		}
	}
	if err == nil && rec.BootID != "" && rec.BootID != bootID() {
		return f // the machine went down with it
	}
	for i := len(roots) - 1; i >= 0 && f.PID == 0; i-- {
		if procs.Alive(roots[i]) {
			f.PID = roots[i].PID
		}
	}
	if f.PID == 0 && f.Began {
		if ids := l.census.tree(uniID, roots, time.Now().Add(-time.Second)); len(ids) > 0 {
			f.PID = ids[0].PID
		}
	}
	if f.PID == 0 {
		// It may have ended in between.
		if rec, err := readRecord(dir, uniID); err == nil && rec.State == recordEnded {
			return Found{Ended: rec.ended(), Began: !rec.Void}
		}
		return f
	}
	f.Keeper = keeperAbove(f.PID)
	return f
}

// keeperAbove is the keeper above a process, or 0.
func keeperAbove(pid int) int {
	for range 64 { // no job is a child of so many
		p, ok := procs.One(pid)
		if !ok || p.Parent <= 1 {
			return 0
		}
		if _, args, _ := strings.Cut(procs.Cmdline(p.Parent), "\x00"); strings.HasPrefix(args, "__keeper\x00") || args == "__keeper" {
			return p.Parent
		}
		pid = p.Parent
	}
	return 0
}
