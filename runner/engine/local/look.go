package local

import (
	"gpurun/runner/engine/local/wire"

	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// Looker returns a function that looks at the attempt in a folder.
func (Kind) Looker() func(dir, uniID string) engine.Found {
	var l looker
	return l.look
}

type looker struct{ census procs.Census }

func (l *looker) look(dir, uniID string) engine.Found {
	rec, err := wire.ReadRecord(dir, uniID)
	if err == nil && rec.State == wire.StateOver {
		return engine.Found{Ended: rec.End(), Began: !rec.Void}
	}
	var f engine.Found
	var roots []procs.ID
	for i := 0; ; i++ {
		p, err := wire.Begun(wire.Marker(dir, i))
		if err != nil {
			break
		}
		f.Began = true
		if p.PID != 0 {
			roots = append(roots, p)
		}
	}
	if err == nil && rec.BootID != "" && rec.BootID != host.BootID() {
		return f // the machine went down with it
	}
	for i := len(roots) - 1; i >= 0 && f.PID == 0; i-- {
		if procs.Alive(roots[i]) {
			f.PID = roots[i].PID
		}
	}
	if f.PID == 0 && f.Began {
		if ids := l.census.Tree(uniID, roots, time.Now().Add(-time.Second)); len(ids) > 0 {
			f.PID = ids[0].PID
		}
	}
	if f.PID == 0 {
		// It may have ended in the meantime.
		if rec, err := wire.ReadRecord(dir, uniID); err == nil && rec.State == wire.StateOver {
			return engine.Found{Ended: rec.End(), Began: !rec.Void}
		}
		return f
	}
	f.Keeper = keeperAbove(f.PID)
	return f
}

// keeperAbove returns the pid of the keeper above a process, or 0.
func keeperAbove(pid int) int {
	for range 64 { // no job is nested that deep
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
