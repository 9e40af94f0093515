package session

import (
	"context"
	"sync"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
)

// A claimSet saves this user's usage of a set of devices for later runs.
type claimSet struct {
	roots []string
	set   string

	mu   sync.Mutex
	kept gpu.Spent
}

// claimsOf returns the claimSet of the prober's devices, or nil if no other run can use them. For
// dir, see ClaimRoots.
func claimsOf(p probe.Prober, dir string) *claimSet {
	if p == nil || p.Private() {
		return nil
	}
	return &claimSet{roots: ClaimRoots(p, dir), set: claim.Set(p.Devices())}
}

// open adds the past usage of all users to a pool.
func (m *claimSet) open(pool *gpu.Pool) {
	if m == nil {
		return
	}
	u := claim.Past(m.roots, m.set)
	var users []gpu.Use
	for _, x := range u.Users {
		users = append(users, x.Use)
	}
	pool.Recall(users, u.Idle)
}

// spend saves a run's usage so far. If that fails, the next call tries again; the run does not
// fail, since usage only breaks ties.
func (m *claimSet) spend(s gpu.Spent) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Passed > m.kept.Passed && claim.Account(m.roots, m.set, s.Since(m.kept)) == nil {
		m.kept = s
	}
}

// ClaimRoots returns the folders with the claims of this and other runs, or none if no other run
// can use the same GPUs. dir is the run's own folder, or "".
func ClaimRoots(p probe.Prober, dir string) []string {
	if p != nil && p.Private() {
		return nil
	}
	return claim.Roots(dir)
}

// Neighbors reads what other runs on this host have published. engine.Claims implements it.
type Neighbors interface {
	// Others returns the claims of other runs, and warnings. It may use the readings.
	Others(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string)
	// Quarantines returns the quarantines of all users, as of the last call of Others.
	Quarantines() []gpu.Quarantine
	// Wishes returns the wishes of other runs, as of the last call of Others.
	Wishes() []gpu.Wish
}

// Observe reads all devices, the claims and quarantines of all runs on this host, and the host
// rules.
func Observe(ctx context.Context, p probe.Prober, h HostRules, n Neighbors, warn func(...string)) gpu.Observation {
	snap := p.Read(ctx, probe.Query{Processes: true})
	var warnings []string
	snap.Claims, warnings = n.Others(ctx, snap.Readings)
	if sim, is := p.(*probe.Sim); is && snap.Err == "" {
		// Commands that only read claims also see other runs' jobs on simulated GPUs. A run sees
		// only its own jobs there, and avoids other jobs by their claims.
		if _, looks := n.(ReadOnlyClaims); looks {
			sim.Claimed(snap.Claims)
			snap.Readings = sim.Read(ctx, probe.Query{Processes: true}).Readings
		}
	}
	snap.Quarantines, snap.Wishes = n.Quarantines(), n.Wishes()
	rules, more := h.read(snap.Users())
	snap.Host = rules
	warn(append(warnings, more...)...)
	return snap
}

// ReadOnlyClaims reads the claims of runs on this host without publishing any.
type ReadOnlyClaims struct{ *claim.Reader }

// ReadOnlyClaimsOf returns the claims of runs that may use the prober's devices.
func ReadOnlyClaimsOf(p probe.Prober) ReadOnlyClaims {
	return ReadOnlyClaims{claim.NewReader(ClaimRoots(p, "")).Of(p.Devices())}
}

// Others returns the claims of other runs, and warnings.
func (s ReadOnlyClaims) Others(ctx context.Context, _ []gpu.Reading) ([]gpu.Claim, []string) {
	return s.Reader.Others(ctx)
}
