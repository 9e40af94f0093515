package sched

import (
	"gpurun/state/schema"
)

// pools is what the batch's jobs take of its pools: something that only so many may use at once,
// such as a slow disk or a license.
type pools struct {
	inUse map[string]int   // by live attempts
	heads map[string]*head // the first ready job that found too little in each
}

func newPools() pools { return pools{map[string]int{}, map[string]*head{}} }

// poolSize returns how much is in a pool.
func (c *Core) poolSize(name string) int {
	for _, p := range c.b.Settings.Pools {
		if p.Name == name {
			return p.Size
		}
	}
	return 0
}

// full returns why a job's pool keeps it from starting now, or nil. Once the patience of a job is
// over that needs more than is left, no other may take any of it.
func (c *Core) full(id int32) *schema.Wait {
	use := c.spec(id).Pool
	if use.N == 0 {
		return nil
	}
	if h := c.pools.heads[use.Name]; h != nil && h.id != id && c.impatient(h) {
		return waits(schema.WaitKept, "pool %s is kept for %s", use.Name, c.name(h.id)).On(c.name(h.id))
	}
	used := c.pools.inUse[use.Name]
	for _, m := range c.moves {
		if p := c.spec(m.job).Pool; p.Name == use.Name {
			used += p.N
		}
	}
	if size := c.poolSize(use.Name); used+use.N > size {
		return waits(schema.WaitPool, "needs %d of pool %s, %d of %d are free", use.N, use.Name, max(0, size-used), size)
	}
	return nil
}

// awaitPool notes that a job found too little in its pool.
func (c *Core) awaitPool(id int32) {
	name := c.spec(id).Pool.Name
	h := c.pools.heads[name]
	if h == nil {
		h = &head{id: -1, first: -1}
		c.pools.heads[name] = h
	}
	if h.id < 0 {
		h.wait(id, c.now.Boot)
	}
}

// forgetHeads begins a new look at who waits for which pool.
func (c *Core) forgetHeads() {
	for _, p := range c.b.Settings.Pools {
		if h := c.pools.heads[p.Name]; h != nil {
			h.id = -1
		}
	}
}
