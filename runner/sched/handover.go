package sched

import (
	"slices"

	"gpurun/gpu"
)

// past is what the claim of an attempt that is over still holds of the GPUs, so
// that they pass to the next attempt without an instant in which nobody claims them.
type past struct {
	uniID string
	ids   []gpu.UUID
}

// yield gives up such claims but for GPUs on which the next attempt is being
// prepared, whose own claim may not be there yet, and for those of a hand-over
// that a job waits for. So the claim ends when the next one is there, and at once
// when there is no use for it.
func (c *Core) yield() {
	if len(c.past) == 0 {
		return
	}
	passing := append(c.preparingOn(), c.handedOver()...)
	left := c.past[:0]
	for _, p := range c.past {
		var keep, give []gpu.UUID
		for _, id := range p.ids {
			if slices.Contains(passing, id) {
				keep = append(keep, id)
			} else {
				give = append(give, id)
			}
		}
		if len(give) > 0 {
			c.pool.Yield(give)
			c.do(Yield{UniID: p.uniID, UUIDs: give})
		}
		if len(keep) > 0 {
			left = append(left, past{p.uniID, keep})
		}
	}
	c.past = left
}

// preparingOn are the GPUs that attempts are being prepared on.
func (c *Core) preparingOn() []gpu.UUID {
	var ids []gpu.UUID
	for a := c.live.first; a != nil && len(c.preps) > 0; a = a.next {
		if a.uniID == "" {
			ids = append(ids, a.grant.UUIDs...)
		}
	}
	return ids
}

// handedOver are the GPUs of hand-overs by which some waiting job may get all that
// it asks for: with what is free now, and what is handed over at the same time. A
// GPU that it would only wait on for others is not claimed for it.
func (c *Core) handedOver() []gpu.UUID {
	if c.waiter.id < 0 || len(c.reads.hands) == 0 {
		return nil
	}
	inHand := func(id gpu.UUID) bool {
		return slices.ContainsFunc(c.reads.hands, func(h handOver) bool { return h.id == id })
	}
	var ids []gpu.UUID
	aside := c.aside()
	for i, req := range c.classes.failed { // the first of them is the waiter's
		if i == 1 {
			aside = append(aside, c.waiter.kept...)
		}
		free, ours := c.pool.Could(c.now.Boot, req, aside)
		free = append(free, slices.DeleteFunc(ours, func(id gpu.UUID) bool { return !inHand(id) })...)
		if len(free) < req.Min {
			continue
		}
		for _, id := range free {
			if inHand(id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		if len(ids) == len(c.reads.hands) {
			break // all of them
		}
	}
	return ids
}
