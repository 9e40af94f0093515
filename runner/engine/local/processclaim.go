package local

import (
	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
)

// A processClaim is a claim for a command that this process runs itself.
type processClaim struct {
	engine.Attempt
	home *remote
}

// Stand binds the claim of uniID to the process pid.
func (l *Local) Stand(uniID, job string, g gpu.Grant, pid int) {
	p, ok := procs.One(pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	home := l.homes[uniID]
	if !ok || home == nil {
		return // it has ended, or nothing was claimed
	}
	l.stands[uniID] = processClaim{engine.Attempt{Identity: engine.Identity{UniID: uniID, Job: job, Grant: g}}, home}
	_ = home.link.Send(&wire.Message{Op: wire.Stand, UniID: uniID, Claim: &wire.Claim{Trees: []procs.ID{p.ID}}})
}
