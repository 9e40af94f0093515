package claim

import (
	"context"
	"slices"
	"time"

	"gpurun/gpu"
)

// The rules of a hand-over. A claim whose attempt has ended may be kept until the
// next claim of the same holder is there for all to see (HandOver, Give). Its
// devices have been claimed all along, so whoever claims them meanwhile finds that
// out and withdraws: the next claim waits for those, and does not withdraw itself.
// Who does not withdraw has not seen it, and then the usual rules hold.

// settleFor is how long those are waited for: they may be starved, or their disk
// may be slow. Nobody else waits meanwhile.
const (
	settleFor   = 2 * time.Second
	settlePause = 50 * time.Millisecond // between two looks, at most
)

// HandOver says that the attempt of a claim is over and that its devices are held
// for the holder's next claim.
func (h *Holder) HandOver(uniID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		k.over = true
	}
}

// TellOver has the claim itself say so, to whoever asks who holds a device.
func (h *Holder) TellOver(uniID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.held[uniID]; k != nil {
		c := *k.content
		c.Over = true
		k.rewrite(&c)
	}
}

// Give ends a claim as far as it is of these devices. The others stay claimed at
// every instant; left says that there are such.
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
	k.rewrite(&c)
	return true
}

// rewrite changes what a claim says, in its place: who looks for it under another
// name might find neither. A reader that sees a part of it reads again. Where it
// cannot be written it stays as it was: what is held too long is of a hand-over.
func (k *held) rewrite(c *content) {
	body, err := c.encode(k.size)
	if err != nil {
		return
	}
	if _, err := k.file.WriteAt(body, 0); err == nil {
		k.content, k.size = c, len(body)
	}
}

// handedOver are the claims of this holder that a grant's devices pass on from.
func (h *Holder) handedOver(g gpu.Grant) map[gpu.UUID]*held {
	from := map[gpu.UUID]*held{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.held {
		if !k.over || k.content.Share || g.Share {
			continue // of a shared device something may be others' rightly
		}
		for _, d := range k.content.Devices {
			if slices.Contains(g.UUIDs, d.UUID) {
				from[d.UUID] = k
			}
		}
	}
	return from
}

// settle waits for those who have claimed, at the same moment, what this holder
// has had all along, and returns others without the ones that have withdrawn.
// Those who come later are not waited for: they see the new claim.
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

// same says that two readings have seen one claim, not one and its next try.
func same(a, b gpu.Claim) bool {
	return a.Attempt == b.Attempt && a.UUID == b.UUID && a.User == b.User && a.PID == b.PID && a.Since.Equal(b.Since)
}

// holds says that all these claims have been there for others to see until now.
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

// anyLate says that some folder was not read to its end.
func (r *Reader) anyLate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doubts.any() || len(r.hung) > 0
}
