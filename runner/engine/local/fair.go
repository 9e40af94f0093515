package local

import (
	"context"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// Offer lets another run have a device of an ended attempt, until Yield.
func (l *Local) Offer(uniID string, id gpu.UUID, to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offeredTo[to] = true
	r := l.overs[uniID]
	if r == nil {
		r = l.homes[uniID] // the caller ran the command itself
	}
	if r != nil {
		c := &wire.Claim{Grant: gpu.Grant{UUIDs: []gpu.UUID{id}}, To: to}
		_ = r.link.Send(&wire.Message{Op: wire.Offer, UniID: uniID, Claim: c}) // if the keeper is gone, so is the claim
	}
}

// Wish publishes this run's waiting requests. Without requests, it withdraws the wish.
func (l *Local) Wish(w gpu.Wish) {
	if len(l.Claims) == 0 || l.Run == "" {
		return
	}
	if err := l.wisher.Publish(w); err != nil {
		l.unwished.Do(func() {
			l.Log.Warn().Err(err).Msg("other runs cannot see that this run is waiting, and may take GPUs out of turn")
		})
	}
}

// Wishes returns the wishes of other runs, as of the latest Others.
func (l *Local) Wishes() []gpu.Wish { return l.holder.Wishes() }

// listen reports changes in the claims and wishes of other runs.
func (l *Local) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	l.Go(func() {
		<-l.stop
		cancel()
	})
	l.holder.Watch(ctx, claim.Watch{
		Run: l.Run, Own: l.mine.has,
		Urgent: func(c gpu.Claim) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return c.To == l.Run || c.To == "" && l.offeredTo[c.Run]
		},
		Tell: func() { l.emit(engine.Event{ClaimsChanged: true}) },
	})
}
