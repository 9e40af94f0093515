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
	"gpurun/runner/engine"
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

// An execClaim is exec's claim on GPUs. A keeper holds it, so it lasts as long as the
// command even if gpurun itself is killed first.
type execClaim struct {
	*app
	job, uniID string
	grant      gpu.Grant
	engine     engine.Engine // nil without GPUs
}

func (e *execClaim) open(p probe.Prober) (err error) {
	last := filepath.Join(os.TempDir(), "gpurun-exec-"+strconv.Itoa(os.Getuid()))
	e.engine, err = e.openEngine("", zerolog.Nop(), claimRoots(p, last))
	return err
}

// take claims a grant. It returns why it could not, or "".
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

// stand records that the command is the process pid.
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

// rivalPause is how long the loser of a race waits. It is random, lest two collide again.
func rivalPause() time.Duration { return 5*time.Millisecond + rand.N(45*time.Millisecond) }
