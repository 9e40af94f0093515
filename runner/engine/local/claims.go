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
	"gpurun/runner/engine/local/procs"
)

// claimWait is how long a keeper may take to claim: 3 s where others do their
// worst, and a moment for each claim that comes before.
const claimWait = 30 * time.Second

// errKeeperGone says that nobody answered to a claim.
var errKeeperGone = errors.New("the keeper has ended while it claimed GPUs")

// Claim has the keeper claim a grant for an attempt that is to be launched, and
// returns what other runs held when the claim was there for them to see; nil
// where this engine makes no claims. After an error nothing is claimed. It may be
// called from any goroutine.
func (l *Local) Claim(ctx context.Context, uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	if len(l.Claims) == 0 {
		return nil, nil, nil
	}
	l.mine.add(uniID)
	others, warnings, err := l.claim(ctx, uniID, claimRequest{Job: job, Grant: g, Roots: l.Claims}, true)
	if err != nil {
		l.Withdraw(uniID)
	}
	return others, warnings, err
}

// claim asks the keeper. For an attempt that is to be launched it is kept in mind
// who holds its claim.
func (l *Local) claim(ctx context.Context, uniID string, req claimRequest, launch bool) ([]gpu.Claim, []string, error) {
	l.mine.reading(1)
	defer l.mine.reading(-1)
	answer := make(chan *message, 1)
	l.mu.Lock()
	own, err := l.keeper()
	if err == nil {
		l.claims[uniID] = answer
		err = own.link.send(&message{Op: opClaim, UniID: uniID, Claim: &req})
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
	late := time.NewTimer(claimWait)
	defer late.Stop()
	select {
	case <-late.C:
		return nil, nil, errors.New("the keeper does not answer") // it is tried again
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

// answered takes the answer to a claim to whoever waits for it. l.mu is held.
func (l *Local) answered(m *message) {
	if m.Op == opWithdrawn {
		l.unclaimed(m.UniID)
		return
	}
	if answer := l.claims[m.UniID]; answer != nil {
		delete(l.claims, m.UniID)
		answer <- m
	}
}

// keeper is this run's, started if there is none. l.mu is held.
func (l *Local) keeper() (*remote, error) {
	if l.own == nil {
		if l.stillborn >= stillbornMost {
			return nil, &engine.BrokenError{Err: fmt.Errorf("%w: %s", errStillborn, l.lastWords())}
		}
		own, err := l.startKeeper()
		if err != nil {
			return nil, &engine.BrokenError{Err: fmt.Errorf("cannot start the keeper: %w", err)}
		}
		l.own = own
	}
	return l.own, nil
}

// refuse says how a launch has ended that cannot be made; nil when it can, by
// l.own. A claim that died with its keeper was there for others to take: its
// attempt never begins. l.mu is held.
func (l *Local) refuse(la *engine.Launch) *engine.Ended {
	own, err := l.keeper()
	if err != nil {
		return &engine.Ended{ExitCode: -1, At: time.Now(), NoRoom: true, Err: err.Error()}
	}
	holder := l.homes[la.UniID]
	delete(l.homes, la.UniID)
	if len(l.Claims) > 0 && len(la.Grant.UUIDs) > 0 && holder != own {
		l.mine.retire(la.UniID)
		return &engine.Ended{ExitCode: -1, At: time.Now(), Lost: true, Void: true}
	}
	return nil
}

// Withdraw ends the claim of an attempt that is not launched.
func (l *Local) Withdraw(uniID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.homes, uniID)
	delete(l.stands, uniID)
	l.withdraw(uniID)
}

// withdraw has the keeper end a claim. Until it says that it has, others still
// see it, and this run must know it for its own. l.mu is held.
func (l *Local) withdraw(uniID string) {
	if l.own == nil || l.own.link.send(&message{Op: opWithdraw, UniID: uniID}) != nil {
		l.unclaimed(uniID)
		return
	}
	l.overs[uniID] = l.own
}

// unclaimed: nobody sees this claim any more. l.mu is held.
func (l *Local) unclaimed(uniID string) {
	delete(l.overs, uniID)
	l.mine.retire(uniID)
	poke(l.ended)
}

// withdrawAll ends the claims that nobody stands on, for good. l.mu is held.
func (l *Local) withdrawAll() {
	for uniID, r := range l.overs {
		if r.link.send(&message{Op: opWithdraw, UniID: uniID}) != nil {
			l.unclaimed(uniID)
		}
	}
}

// awaitWithdrawn waits for this, a moment at most: what runs next may want the
// same GPUs.
func (l *Local) awaitWithdrawn() {
	late := time.NewTimer(time.Second)
	defer late.Stop()
	for {
		l.mu.Lock()
		left := len(l.overs)
		l.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-l.ended:
		case <-late.C:
			return
		}
	}
}

// Yield gives up what the claim of an attempt that is over still holds of these
// devices. Until then, or for 30 s, or until this process dies, they are claimed:
// the claim of the next attempt can be made before.
func (l *Local) Yield(uniID string, ids []gpu.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.overs[uniID]
	if r == nil {
		return
	}
	m := &message{Op: opWithdraw, UniID: uniID, Claim: &claimRequest{Grant: gpu.Grant{UUIDs: ids}}}
	if r.link.send(m) != nil {
		l.unclaimed(uniID)
	}
}

// Others reads what other runs hold, and finds out from readings of the devices
// how much of it they use, where that can be told. The list is nil where this
// engine makes no claims. It takes about a second at most.
func (l *Local) Others(ctx context.Context, readings []gpu.Reading) ([]gpu.Claim, []string) {
	if len(l.Claims) == 0 {
		return nil, nil
	}
	l.mine.reading(1)
	defer l.mine.reading(-1)
	others, warnings := l.reader().Others(ctx)
	others = l.mine.without(others)
	fillTaken(others, readings)
	return others, warnings
}

// reader is made when it is needed first.
func (l *Local) reader() *claim.Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rivals == nil {
		l.rivals = claim.NewReader(l.Claims)
	}
	return l.rivals
}

// claimAgain claims for an attempt that runs on after its keeper has died, and
// with it the claim. What others have taken meanwhile changes nothing for it.
// l.mu is held, and the engine open.
func (l *Local) claimAgain(e *entry, trees []procs.ID) {
	if len(l.Claims) == 0 || len(e.Grant.UUIDs) == 0 {
		return
	}
	l.start(func() {
		req := claimRequest{Job: e.Job, Grant: e.Grant, Roots: l.Claims, Trees: trees}
		_, warnings, err := l.claim(context.Background(), e.UniID, req, false)
		for _, w := range warnings {
			l.Log.Warn().Msg(w)
		}
		if err != nil {
			l.Log.Warn().Err(err).Str("job", e.Job).Msg("no claim for a job whose keeper has died")
		} else {
			l.bridge.release(e.UniID)
		}
		l.mu.Lock()
		over := l.live[e.UniID] != e
		l.mu.Unlock()
		if over {
			l.Withdraw(e.UniID)
		}
	})
}

// unclaim ends the claim of an attempt that is over. Its own keeper goes on holding
// it until Yield; one that was made again by claimAgain ends at once. l.mu is held.
func (l *Local) unclaim(e *entry) {
	switch {
	case len(l.Claims) == 0 || len(e.Grant.UUIDs) == 0:
		l.mine.retire(e.UniID)
	case e.home != nil:
		l.overs[e.UniID] = e.home
	default:
		l.bridge.release(e.UniID)
		l.withdraw(e.UniID)
	}
}

// mine are the attempts of this run, whose claims are no other's. One that has
// ended is remembered for as long as somebody reads who may have seen its claim.
type mine struct {
	mu      sync.Mutex
	ids     map[string]bool
	retired []string
	readers int
}

func (m *mine) add(uniID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil {
		m.ids = map[string]bool{}
	}
	m.ids[uniID] = true
}

func (m *mine) retire(uniID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids[uniID] {
		m.retired = append(m.retired, uniID)
		m.forget()
	}
}

// reading begins (1) or ends (-1) a reading of claims.
func (m *mine) reading(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readers += n
	m.forget()
}

// forget drops those that no reading can have seen. m.mu is held.
func (m *mine) forget() {
	if m.readers > 0 {
		return
	}
	for _, uniID := range m.retired {
		delete(m.ids, uniID)
	}
	m.retired = nil
}

// without are the claims of others. It is never nil.
func (m *mine) without(claims []gpu.Claim) []gpu.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := make([]gpu.Claim, 0, len(claims))
	for _, c := range claims {
		if !m.ids[c.Attempt] {
			others = append(others, c)
		}
	}
	return others
}
