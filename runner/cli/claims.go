package cli

import (
	"context"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
)

// claimRoots are where this run's claims and those of others are; none where no
// other run can mean the same GPUs. dir is the run's own folder, or "".
func claimRoots(p probe.Prober, dir string) []string {
	if own, ok := p.(interface{ Private() bool }); ok && own.Private() {
		return nil
	}
	return claim.Roots("", dir)
}

// observed is a reading of all devices with what gpuruns of this host hold.
func (a *app) observed(ctx context.Context, p probe.Prober, r *claim.Reader) gpu.Snapshot {
	snap := p.Read(ctx, probe.Query{Processes: true})
	if r != nil {
		var warnings []string
		snap.Claims, warnings = r.Others(ctx)
		for _, w := range warnings {
			a.warn(w)
		}
	}
	return snap
}

// claimReader reads what gpuruns of this host hold; nil where none can hold these GPUs.
func claimReader(p probe.Prober) *claim.Reader {
	if roots := claimRoots(p, ""); roots != nil {
		return claim.NewReader(roots)
	}
	return nil
}
