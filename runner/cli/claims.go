package cli

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
	"gpurun/runner/engine/local"
)

// claimRoots are where this run's claims and those of others are; none where no
// other run can mean the same GPUs. dir is the run's own folder, or "".
func claimRoots(p probe.Prober, dir string) []string {
	if own, ok := p.(interface{ Private() bool }); ok && own.Private() {
		return nil
	}
	return claim.Roots("", dir)
}

// otherClaims are those of other gpuruns of this host, of which the readings may
// tell more, and what there is to warn of.
type otherClaims func(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string)

// observed is a reading of all devices with what gpuruns of this host hold.
func (a *app) observed(ctx context.Context, p probe.Prober, claims otherClaims) gpu.Snapshot {
	snap := p.Read(ctx, probe.Query{Processes: true})
	var warnings []string
	snap.Claims, warnings = claims(ctx, snap.Readings)
	for _, w := range warnings {
		a.warn(w)
	}
	return snap
}

// claimReader reads what gpuruns of this host hold; nothing where none can hold
// these GPUs.
func claimReader(p probe.Prober) otherClaims {
	roots := claimRoots(p, "")
	if roots == nil {
		return func(context.Context, []gpu.Reading) ([]gpu.Claim, []string) { return nil, nil }
	}
	r := claim.NewReader(roots)
	return func(ctx context.Context, _ []gpu.Reading) ([]gpu.Claim, []string) { return r.Others(ctx) }
}

// An execClaim is what exec holds of the GPUs. A keeper holds it, so that it lasts
// as long as the command even if gpurun itself is killed before.
type execClaim struct {
	*app
	job, uniID string
	grant      gpu.Grant
	engine     *local.Local // nil without GPUs
}

func (e *execClaim) open(p probe.Prober) {
	last := filepath.Join(os.TempDir(), "gpurun-exec-"+strconv.Itoa(os.Getuid()))
	e.engine = local.OpenClaims(local.Config{Claims: claimRoots(p, last), Log: zerolog.Nop(), Go: e.goSafely})
}

// take claims a grant; what it says is why it could not be had.
func (e *execClaim) take(ctx context.Context, pool *gpu.Pool, g gpu.Grant) string {
	others, warnings, err := e.engine.Claim(ctx, e.uniID, e.job, g)
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
		e.engine.Withdraw(e.uniID)
	}
	e.grant = g
	return why
}

// stand: the command is the process pid.
func (e *execClaim) stand(pid int) {
	if e.engine != nil {
		e.engine.Stand(e.uniID, e.job, e.grant, pid)
	}
}

func (e *execClaim) release() {
	if e.engine != nil {
		e.engine.Withdraw(e.uniID)
		e.engine.Close()
	}
}

// rivalPause is how long whoever lost a race waits: two that met should not meet again.
func rivalPause() time.Duration { return 5*time.Millisecond + rand.N(45*time.Millisecond) }
