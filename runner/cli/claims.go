package cli

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

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

// An execClaim is what exec holds of the GPUs, for as long as gpurun itself lives.
type execClaim struct {
	*app
	job, uniID string
	holder     *claim.Holder // nil where nobody else can hold these GPUs
}

func (e *execClaim) open(p probe.Prober) {
	last := filepath.Join(os.TempDir(), "gpurun-exec-"+strconv.Itoa(os.Getuid()))
	if roots := claimRoots(p, last); roots != nil {
		e.holder = claim.Open(roots)
	}
}

func (e *execClaim) reader() *claim.Reader {
	if e.holder == nil {
		return nil
	}
	return e.holder.Reader
}

// take claims a grant; what it says is why it could not be had.
func (e *execClaim) take(ctx context.Context, pool *gpu.Pool, g gpu.Grant) string {
	if e.holder == nil {
		return ""
	}
	others, warnings, err := e.holder.Claim(ctx, e.uniID, e.job, g)
	for _, w := range warnings {
		e.warn(w)
	}
	if err != nil {
		return err.Error()
	}
	pool.Hold(e.uniID, g)
	why := pool.Conflict(g, others)
	if why != "" {
		pool.Undo(e.uniID)
		e.holder.Release(e.uniID)
	}
	return why
}

func (e *execClaim) release() {
	if e.holder != nil {
		e.holder.Close()
	}
}

// rivalPause is how long whoever lost a race waits: two that met should not meet again.
func rivalPause() time.Duration { return 5*time.Millisecond + rand.N(45*time.Millisecond) }
