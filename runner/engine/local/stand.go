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

// OpenClaims creates an engine that launches nothing: it claims GPUs for a command that
// the caller runs itself (Claim, Stand, Withdraw). The first claim starts the keeper,
// which holds the claim. If the caller is killed, the keeper lives as long as the
// command. Only Claims, Log and Go of c are used.
func OpenClaims(c Config) *Local {
	l := newLocal(Config{Claims: c.Claims, Log: c.Log, Go: c.Go})
	l.start(l.pump)
	l.start(l.watchKeepers)
	return l
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
