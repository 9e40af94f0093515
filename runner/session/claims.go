package session

import (
	"context"
	"sync"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
)

// A claimSet keeps what this user's runs have spent of a set of devices, for later runs.
type claimSet struct {
	roots []string
	set   string

	mu   sync.Mutex
	kept gpu.Spent
}

// claimsOf returns that of the prober's devices; nil if nobody shares them. dir is as for claimRoots.
func claimsOf(p probe.Prober, dir string) *claimSet {
	if p == nil || p.Private() {
		return nil
	}
	return &claimSet{roots: ClaimRoots(p, dir), set: claim.Set(p.Devices())}
}

// open tells a pool what users had before.
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

// spend keeps what a run has spent so far. If that cannot be written, the next call tries
// again: it only breaks ties, and no run fails for it.
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

// ClaimRoots returns the folders that hold this run's claims and those of others;
// none if no other run can use the same GPUs. dir is the run's own folder, or "".
func ClaimRoots(p probe.Prober, dir string) []string {
	if p != nil && p.Private() {
		return nil
	}
	return claim.Roots("", dir)
}

// Neighbors knows what the gpuruns on this host have published. An engine is one.
type Neighbors interface {
	// Others returns the claims of others, for which it may use the readings, and warnings.
	Others(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string)
	// Sick returns all users' quarantines, as of the latest Others.
	Sick() []gpu.Quarantine
	// Wishes returns what other runs waited for then.
	Wishes() []gpu.Wish
}

// Observe reads all devices, what gpuruns on this host hold and have quarantined, and the
// rules of the host.
func Observe(ctx context.Context, p probe.Prober, h HostRules, n Neighbors, warn func(...string)) gpu.Observation {
	snap := p.Read(ctx, probe.Query{Processes: true})
	var warnings []string
	snap.Claims, warnings = n.Others(ctx, snap.Readings)
	snap.Sick, snap.Wishes = n.Sick(), n.Wishes()
	rules, more := h.read(snap.Users())
	snap.Host = rules
	warn(append(warnings, more...)...)
	return snap
}

// A ReadOnlyClaims reads what gpuruns on this host have published.
type ReadOnlyClaims struct{ *claim.Reader }

// ReadOnlyClaimsOf returns a spectator of those that may hold the prober's devices.
func ReadOnlyClaimsOf(p probe.Prober) ReadOnlyClaims {
	return ReadOnlyClaims{claim.NewReader(ClaimRoots(p, "")).Of(p.Devices())}
}

// Others returns the claims of other runs, and warnings.
func (s ReadOnlyClaims) Others(ctx context.Context, _ []gpu.Reading) ([]gpu.Claim, []string) {
	return s.Reader.Others(ctx)
}
