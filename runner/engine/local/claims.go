package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// claimWait is how long a keeper may take to make a claim. A claim takes up to 3 s if other users
// interfere as much as they can, and each claim ahead of it adds a moment.
const claimWait = 30 * time.Second

// errKeeperGone reports that the keeper died before it answered a claim.
var errKeeperGone = errors.New("the keeper ended while claiming GPUs")

// Claim has the keeper claim a grant for an attempt about to be launched. It returns the
// other runs' claims once this claim is visible to them, or nil if this engine makes no
// claims. After an error nothing is claimed. Any goroutine may call it.
func (l *Local) Claim(ctx context.Context, uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	if len(l.Claims) == 0 {
		return nil, nil, nil
	}
	l.mine.add(uniID)
	others, warnings, err := l.claim(ctx, uniID, wire.Claim{Job: job, Grant: g, Roots: l.Claims, Run: l.Run}, true)
	if err != nil {
		l.Withdraw(uniID)
	}
	return others, warnings, err
}

// claim has the keeper make a claim. If launch is set, it also records which keeper has the claim.
func (l *Local) claim(ctx context.Context, uniID string, req wire.Claim, launch bool) ([]gpu.Claim, []string, error) {
	answer := make(chan *wire.Message, 1)
	l.mu.Lock()
	own, err := l.keeper()
	if err == nil {
		l.claims[uniID] = answer
		err = own.link.Send(&wire.Message{Op: wire.MakeClaim, UniID: uniID, Claim: &req})
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.claims, uniID)
		l.mu.Unlock()
	}()
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-time.After(claimWait):
		return nil, nil, errors.New("the keeper does not answer") // the claim is retried
	case m := <-answer:
		if m.Err != "" {
			return nil, m.Warnings, errors.New(m.Err)
		}
		if launch {
			l.mu.Lock()
			l.homes[uniID] = own
			l.mu.Unlock()
		}
		return l.mine.without(m.Claims), m.Warnings, nil
	case <-own.gone:
		return nil, nil, errKeeperGone
	case <-l.stop:
		return nil, nil, errKeeperGone
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// answered handles a keeper's answer: it passes the answer to a claim to the waiting caller, or
// records that a claim was withdrawn. l.mu is held.
func (l *Local) answered(m *wire.Message) {
	if m.Op == wire.Withdrawn {
		l.unclaimed(m.UniID)
		return
	}
	if answer := l.claims[m.UniID]; answer != nil {
		delete(l.claims, m.UniID)
		answer <- m
	}
}

// keeper returns this run's keeper, starting one if there is none. l.mu is held.
func (l *Local) keeper() (*remote, error) {
	if l.own == nil {
		if l.failedStarts >= failedStartsMost {
			return nil, &engine.BrokenError{Err: errors.New("the keeper exits right after it starts: " + l.lastLogLine())}
		}
		own, err := l.startKeeper()
		if err != nil {
			return nil, &engine.BrokenError{Err: fmt.Errorf("cannot start the keeper: %w", err)}
		}
		l.own = own
	}
	return l.own, nil
}

// refuse returns the end of an attempt that cannot be launched, or nil if l.own can launch it. If
// an attempt's claim died with its keeper, other runs could have taken the GPUs, so the attempt
// never begins. l.mu is held.
func (l *Local) refuse(la *engine.Launch) *state.End {
	own, err := l.keeper()
	if err != nil {
		return &state.End{ExitCode: -1, At: time.Now(), NoRoom: true, Err: err.Error()}
	}
	holder := l.homes[la.UniID]
	delete(l.homes, la.UniID)
	if len(l.Claims) > 0 && len(la.Grant.UUIDs) > 0 && holder != own {
		return &state.End{ExitCode: -1, At: time.Now(), Lost: true, Void: true}
	}
	return nil
}

// Stand binds the claim of uniID to the process pid.
func (l *Local) Stand(uniID, job string, g gpu.Grant, pid int) {
	p, ok := procs.One(pid)
	l.mu.Lock()
	defer l.mu.Unlock()
	home := l.homes[uniID]
	if !ok || home == nil {
		return // the process has ended, or nothing was claimed
	}
	l.stands[uniID] = engine.Attempt{Identity: engine.Identity{UniID: uniID, Job: job, Grant: g}}
	_ = home.link.Send(&wire.Message{Op: wire.Stand, UniID: uniID, Claim: &wire.Claim{Trees: []procs.ID{p.ID}}})
}

// Outlast lets the claim of uniID last as long as the processes that the caller's command has left.
func (l *Local) Outlast(uniID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if home := l.homes[uniID]; home != nil {
		_ = home.link.Send(&wire.Message{Op: wire.Stand, UniID: uniID, Claim: &wire.Claim{Left: true}})
	}
}

// Withdraw ends the claim of an attempt that is not going to be launched.
func (l *Local) Withdraw(uniID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.homes, uniID)
	delete(l.stands, uniID)
	l.withdraw(uniID)
}

// withdraw has the keeper end a claim. Other runs may see the claim until the keeper confirms that
// it has ended. l.mu is held.
func (l *Local) withdraw(uniID string) {
	if l.own == nil || l.own.link.Send(&wire.Message{Op: wire.Withdraw, UniID: uniID}) != nil {
		l.unclaimed(uniID)
		return
	}
	l.overs[uniID] = l.own
}

// unclaimed handles a claim that is no longer visible. The caller holds l.mu.
func (l *Local) unclaimed(uniID string) {
	delete(l.overs, uniID)
	engine.Poke(l.ended)
}

// withdrawAll ends all claims that no attempt uses any more. l.mu is held.
func (l *Local) withdrawAll() {
	for uniID, r := range l.overs {
		if r.link.Send(&wire.Message{Op: wire.Withdraw, UniID: uniID}) != nil {
			l.unclaimed(uniID)
		}
	}
}

// awaitWithdrawn waits up to a second for all claims in l.overs to end: the next run may want the
// same GPUs.
func (l *Local) awaitWithdrawn() {
	late := time.After(time.Second)
	for {
		l.mu.Lock()
		left := len(l.overs)
		l.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-l.ended:
		case <-late:
			return
		}
	}
}

// Yield releases these devices from the claim of an attempt that is over. Until Yield they stay
// claimed, so that the next attempt can claim them first, but for at most 30 s and only while this
// process lives.
func (l *Local) Yield(uniID string, ids []gpu.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.overs[uniID]
	if r == nil {
		return
	}
	m := &wire.Message{Op: wire.Withdraw, UniID: uniID, Claim: &wire.Claim{Grant: gpu.Grant{UUIDs: ids}}}
	if r.link.Send(m) != nil {
		l.unclaimed(uniID)
	}
}

// Others returns the claims of other runs and, where device readings show it, how much of each is
// in use. The list is nil if this engine makes no claims. Others takes about a second at most.
func (l *Local) Others(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string) {
	if len(l.Claims) == 0 {
		return nil, nil
	}
	others, warnings := l.holder.Others(ctx)
	others = l.mine.without(others)
	fillTaken(others, readings)
	return others, warnings
}

// Quarantines returns all users' quarantines, as of the latest Others.
func (l *Local) Quarantines() []gpu.Quarantine {
	if len(l.Claims) == 0 {
		return nil
	}
	return l.holder.Quarantines()
}

// Quarantine publishes one of this user's quarantines, unless this engine makes no claims. The
// quarantine outlives this process.
func (l *Local) Quarantine(q gpu.Quarantine) error {
	if len(l.Claims) == 0 {
		return nil
	}
	return claim.Publish(l.Claims, q)
}

// claimAgain makes a new claim for a running attempt whose keeper died and took the claim with it.
// Claims that other runs made in the meantime do not affect the attempt. l.mu is held, and the
// engine is open.
func (l *Local) claimAgain(e *entry, trees []procs.ID) {
	if len(l.Claims) == 0 || len(e.Grant.UUIDs) == 0 {
		return
	}
	l.start(func() {
		req := wire.Claim{Job: e.Job, Grant: e.Grant, Roots: l.Claims, Run: l.Run, Trees: trees}
		_, warnings, err := l.claim(context.Background(), e.UniID, req, false)
		for _, w := range warnings {
			l.Log.Warn().Msg(w)
		}
		if err != nil {
			l.Log.Warn().Err(err).Str("job", e.Job).Msg("cannot renew the claim of a job whose keeper died")
		} else {
			l.holder.Release(e.UniID)
		}
		l.mu.Lock()
		over := l.live[e.UniID] != e
		l.mu.Unlock()
		if over {
			l.Withdraw(e.UniID)
		}
	})
}

// unclaim ends the claim of an attempt that is over. Its own keeper holds the claim until Yield; a
// claim made by claimAgain ends immediately. l.mu is held.
func (l *Local) unclaim(e *entry) {
	switch {
	case len(l.Claims) == 0 || len(e.Grant.UUIDs) == 0: // it has none
	case e.home != nil:
		l.overs[e.UniID] = e.home
	default:
		l.holder.Release(e.UniID)
		l.withdraw(e.UniID)
	}
}

// ownAttempts is the set of this run's attempts, whose claims do not count as claims of other runs.
// It also keeps attempts that are over, because a reading in progress may have seen their claims.
type ownAttempts struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (m *ownAttempts) add(uniID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids[uniID] = true
}

func (m *ownAttempts) has(uniID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[uniID]
}

// without returns the claims of other runs. The result is never nil.
func (m *ownAttempts) without(claims []gpu.Claim) []gpu.Claim {
	others := make([]gpu.Claim, 0, len(claims))
	for _, c := range claims {
		if !m.has(c.Attempt) {
			others = append(others, c)
		}
	}
	return others
}
