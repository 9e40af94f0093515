package claim

import (
	"context"
	"slices"
	"time"

	"gpurun/gpu"
)

// The rules of a hand-over. A holder may keep a claim whose attempt has ended until
// its next claim is visible to all (HandOver, Give). The devices stay claimed
// throughout, so anyone who claims them meanwhile finds out and withdraws: the next
// claim waits for that and does not withdraw itself. Anyone who does not withdraw has
// not seen it, and then the usual rules apply.

// settleFor is how long to wait for others to withdraw: they may be starved, or
// their disk may be slow. Nobody else waits meanwhile.
const (
	settleFor   = 2 * time.Second
	settlePause = 50 * time.Millisecond // between two looks, at most
)

// HandOver records that a claim's attempt is over and that its devices are held for
// the holder's next claim. If that takes long, Keep writes it into the claim.
func (h *Holder) HandOver(uniID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		k.over = true
	}
}

// Offer says in the claim of an attempt that is over that a run may have some of its
// devices. Until they are given up, that run claims them beside this claim, and nobody
// else does.
func (h *Holder) Offer(uniID string, ids []gpu.UUID, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		k.offer(to, func(d contentDevice) bool { return slices.Contains(ids, d.UUID) })
	}
}

// offer offers those devices of a claim to a run.
func (k *held) offer(to string, which func(d contentDevice) bool) {
	c := *k.content
	c.Devices = slices.Clone(c.Devices)
	for i := range c.Devices {
		if which(c.Devices[i]) {
			c.Devices[i].To = to
		}
	}
	if !slices.Equal(c.Devices, k.content.Devices) {
		k.change(&c)
	}
}

// change rewrites a claim.
func (k *held) change(c *content) {
	if k.rewrite(c) == nil {
		k.content = c
	}
}

// Give releases these devices of a claim. The others stay claimed without a gap; left
// reports whether there are any.
func (h *Holder) Give(uniID string, ids []gpu.UUID) (left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.held[uniID]
	if k == nil {
		return false
	}
	c := *k.content
	c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(d contentDevice) bool { return slices.Contains(ids, d.UUID) })
	if len(c.Devices) == 0 {
		delete(h.held, uniID)
		k.end()
		return false
	}
	k.change(&c)
	return true
}

// handedOver returns the claims of this holder that a grant's devices come from.
func (h *Holder) handedOver(g gpu.Grant) map[gpu.UUID]*held {
	from := map[gpu.UUID]*held{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.held {
		if !k.over || k.content.Share || g.Share {
			continue // others may rightly hold part of a shared device
		}
		for _, d := range k.content.Devices {
			if slices.Contains(g.UUIDs, d.UUID) {
				from[d.UUID] = k
			}
		}
	}
	return from
}

// settle waits for those who have just claimed what this holder has had all along, and
// returns others without those that withdrew. It does not wait for anyone who comes
// later: they see the new claim.
func (h *Holder) settle(ctx context.Context, others []gpu.Claim, from map[gpu.UUID]*held) []gpu.Claim {
	disputed := func(c gpu.Claim) bool { return from[c.UUID] != nil }
	for pause, waited := time.Millisecond, time.Duration(0); slices.ContainsFunc(others, disputed); pause = min(2*pause, settlePause) {
		if waited += pause; waited > settleFor || ctx.Err() != nil {
			break
		}
		time.Sleep(pause)
		now, _, doubt := h.look(ctx)
		if doubt || h.anyLate() || !h.holds(from) {
			break
		}
		others = slices.DeleteFunc(others, func(c gpu.Claim) bool {
			return disputed(c) && !slices.ContainsFunc(now, func(n gpu.Claim) bool { return same(c, n) })
		})
	}
	return others
}

// same reports whether two readings saw the same claim, not a claim and its retry.
func same(a, b gpu.Claim) bool {
	return a.Attempt == b.Attempt && a.UUID == b.UUID && a.User == b.User && a.PID == b.PID && a.Since.Equal(b.Since)
}

// holds reports whether all these claims have been visible to others until now.
func (h *Holder) holds(from map[gpu.UUID]*held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range from {
		if h.held[k.content.UniID] != k || !k.linked() {
			return false
		}
	}
	return true
}
