package claim

import (
	"context"
	"slices"
	"time"

	"gpurun/gpu"
)

// When an attempt has ended, its holder may keep the claim until the holder's next claim is visible
// to all (HandOver, Give). The devices stay claimed all the time, so a run that claims them in between
// notices and withdraws. The next claim waits for the withdrawal and does not withdraw itself. A
// run that does not withdraw has not seen the claim, and the usual rules apply.

// settleFor is how long to wait for other runs to withdraw. It is long because their processes may
// be starved or their disks slow. Meanwhile, this holder can publish other claims.
const (
	settleFor   = 2 * time.Second
	settlePause = 50 * time.Millisecond // maximum pause between two readings
)

// HandOver records that a claim's attempt has ended and that its devices are held for the holder's
// next claim. If the hand-over takes long, Keep writes this to the claim.
func (h *Holder) HandOver(uniID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		k.over = true
	}
}

// Offer offers a run some devices of a claim whose attempt has ended. Until the devices are
// released, only that run may claim them in addition to this claim.
func (h *Holder) Offer(uniID string, ids []gpu.UUID, to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		k.offer(to, func(d contentDevice) bool { return slices.Contains(ids, d.UUID) })
	}
}

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

func (k *held) change(c *content) {
	if k.rewrite(c) == nil {
		k.content = c
	}
}

// Give releases some devices of a claim. The others stay claimed without a gap; left reports
// whether there are any.
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

// handedOver returns, for a grant's devices that are being handed over, this holder's claims on
// them.
func (h *Holder) handedOver(g gpu.Grant) map[gpu.UUID]*held {
	from := map[gpu.UUID]*held{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.held {
		if !k.over || k.content.Share || g.Share {
			continue // others may legitimately hold part of a shared device
		}
		for _, d := range k.content.Devices {
			if slices.Contains(g.UUIDs, d.UUID) {
				from[d.UUID] = k
			}
		}
	}
	return from
}

// settle waits for runs to withdraw claims on devices that this holder has held all along. It
// returns others without the withdrawn claims. It does not wait for later claims, because their
// runs see the new claim.
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

// same reports whether two readings saw the same claim, rather than a claim and its retry.
func same(a, b gpu.Claim) bool {
	return a.Attempt == b.Attempt && a.UUID == b.UUID && a.User == b.User && a.PID == b.PID && a.Since.Equal(b.Since)
}

// holds reports whether all these claims are still visible to others.
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
