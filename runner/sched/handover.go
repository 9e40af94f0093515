package sched

import (
	"slices"

	"gpurun/gpu"
)

// past is the part of a finished attempt's claim that is still held, so that its GPUs
// pass to the next attempt without ever being unclaimed.
type past struct {
	uniID string
	ids   []gpu.UUID
}

// yield releases such claims, except on GPUs where the next attempt is being prepared,
// whose own claim may not exist yet, and in a hand-over that a job waits for. So a claim
// ends once the next one exists, or at once if nobody can use it.
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

// preparingOn returns the GPUs of attempts being prepared.
func (c *Core) preparingOn() []gpu.UUID {
	var ids []gpu.UUID
	for a := c.live.first; a != nil && len(c.preps) > 0; a = a.next {
		if a.uniID == "" {
			ids = append(ids, a.grant.UUIDs...)
		}
	}
	return ids
}

// handedOver returns the GPUs in hand-over that, with what is free now, may give some
// waiting job everything it asks for. A GPU is not claimed for a job that would still
// have to wait for others.
func (c *Core) handedOver() []gpu.UUID {
	if c.waiter.id < 0 || len(c.reads.hands) == 0 {
		return nil
	}
	inHand := func(id gpu.UUID) bool {
		return slices.ContainsFunc(c.reads.hands, func(h handOver) bool { return h.id == id })
	}
	var ids []gpu.UUID
	aside := c.aside()
	for i, req := range c.classes.failed { // the first is the waiter's
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
