package local

import (
	"sync"

	"gpurun/gpu/claim"
	"gpurun/runner/engine"
)

// An interimClaims holds the claims of attempts whose keeper died until the next keeper has
// them. It lives in this process, so there is no gap.
type interimClaims struct {
	mu     sync.Mutex
	holder *claim.Holder // nil before first use
}

// hold makes claims for attempts that keep running, and returns any warnings.
func (b *interimClaims) hold(roots []string, run string, attempts []engine.Attempt) (warnings []string) {
	if len(attempts) == 0 {
		return nil
	}
	b.mu.Lock()
	if b.holder == nil {
		b.holder = claim.NewHolder(roots)
	}
	h := b.holder
	b.mu.Unlock()
	for _, a := range attempts {
		w, err := h.Again(claim.Subject{UniID: a.UniID, Job: a.Job, Grant: a.Grant, Run: run})
		if warnings = append(warnings, w...); err != nil {
			warnings = append(warnings, err.Error())
		}
	}
	return warnings
}

func (b *interimClaims) release(uniID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != nil {
		b.holder.Release(uniID)
	}
}

func (b *interimClaims) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != nil {
		b.holder.Close()
	}
}

// dropKeeper records that a keeper is gone and returns its attempts that claim GPUs.
func (l *Local) dropKeeper(r *remote) []engine.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.others, r)
	l.countFailedStart(r)
	if l.own == r {
		l.own = nil
	}
	for uniID, at := range l.overs {
		if at == r {
			l.unclaimed(uniID)
		}
	}
	if l.closed || len(l.Claims) == 0 {
		return nil
	}
	var attempts []engine.Attempt
	for _, e := range l.live {
		if e.home == r && len(e.Grant.UUIDs) > 0 {
			attempts = append(attempts, e.Attempt)
		}
	}
	for _, s := range l.stands {
		if s.home == r {
			attempts = append(attempts, s.Attempt)
		}
	}
	return attempts
}
