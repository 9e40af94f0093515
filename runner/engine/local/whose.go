package local

import (
	"slices"
	"time"

	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
)

// Attempt returns the attempt whose tree includes pid, or "".
func (l *Local) Attempt(pid int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var chain []procs.ID
	for at := pid; at > 1; {
		p, ok := procs.One(at)
		if !ok {
			break
		}
		if uniID := l.attemptOf(p); uniID != "" {
			return l.remember(append(chain, p.ID), uniID)
		}
		chain = append(chain, p.ID)
		at = p.Parent
	}
	if uniID := procs.UniID(pid); len(chain) > 0 && l.live[uniID] != nil {
		return l.remember(chain[:1], uniID)
	}
	return ""
}

// attemptOf returns the attempt of a process, or "" if only its ancestors could identify it. l.mu
// is held.
func (l *Local) attemptOf(p procs.Proc) string {
	if uniID := l.pids[p.ID]; uniID != "" {
		return uniID
	}
	for _, e := range l.live {
		for _, root := range e.roots {
			if root == p.ID || root.PID == p.Session && p.Start >= root.Start && root.PID != 0 {
				return e.UniID
			}
		}
	}
	return ""
}

func (l *Local) remember(ids []procs.ID, uniID string) string {
	for _, id := range ids {
		l.pids[id] = uniID
	}
	return uniID
}

// CPU returns the CPU time that attempts have used.
func (l *Local) CPU(uniIDs []string) map[string]time.Duration {
	used, now := map[string]time.Duration{}, time.Now()
	for _, id := range uniIDs {
		l.mu.Lock()
		var roots []procs.ID
		if e := l.live[id]; e != nil {
			roots = slices.Clone(e.roots)
		}
		l.mu.Unlock()
		if len(roots) == 0 {
			continue // not yet running, or over
		}
		if cpu, ok := l.census.CPU(id, roots, now); ok {
			used[id] = cpu
		}
	}
	return used
}

// OnGPU reports to an attempt's keeper which of its processes were seen on its GPUs.
func (l *Local) OnGPU(uniID string, pids []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.live[uniID]; e != nil && e.home != nil {
		_ = e.home.link.Send(&wire.Message{Op: wire.OnGPU, UniID: uniID, PIDs: pids})
	}
}
