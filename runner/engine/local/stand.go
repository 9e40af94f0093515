package local

import (
	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
)

// A stand is a command that this process runs itself, on GPUs that a keeper claims for
// it.
type stand struct {
	engine.Attempt
	home *remote
}

// Stand records that process pid is the command that the claim of uniID is for.
func (l *Local) Stand(uniID, job string, g gpu.Grant, pid int) {
	p, ok := procs.One(pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	home := l.homes[uniID]
	if !ok || home == nil {
		return // it has ended, or nothing was claimed
	}
	l.stands[uniID] = stand{engine.Attempt{UniID: uniID, Job: job, Grant: g}, home}
	_ = home.link.send(&message{Op: opStand, UniID: uniID, Claim: &claimRequest{Trees: []procs.ID{p.ID}}})
}
