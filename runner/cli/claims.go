package cli

import (
	"context"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
)

// claimRoots returns the folders that hold this run's claims and those of others;
// none if no other run can use the same GPUs. dir is the run's own folder, or "".
func claimRoots(p probe.Prober, dir string) []string {
	if p != nil && p.Private() {
		return nil
	}
	return claim.Roots("", dir)
}

// otherClaims returns the claims of other gpuruns on this host, for which it may use
// the readings, and warnings.
type otherClaims func(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string)

// observed reads all devices, and what gpuruns on this host hold.
func (a *app) observed(ctx context.Context, p probe.Prober, claims otherClaims) gpu.Observation {
	snap := p.Read(ctx, probe.Query{Processes: true})
	var warnings []string
	snap.Claims, warnings = claims(ctx, snap.Readings)
	for _, w := range warnings {
		a.warn(w)
	}
	return snap
}

// claimReader returns a reader of what gpuruns on this host hold. It finds nothing if
// none can hold these GPUs.
func claimReader(p probe.Prober) otherClaims {
	roots := claimRoots(p, "")
	if roots == nil {
		return func(context.Context, []gpu.Reading) ([]gpu.Claim, []string) { return nil, nil }
	}
	r := claim.NewReader(roots)
	return func(ctx context.Context, _ []gpu.Reading) ([]gpu.Claim, []string) { return r.Others(ctx) }
}
