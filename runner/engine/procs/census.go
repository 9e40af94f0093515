package procs

import (
	"sync"
	"time"
)

// A Census is one reading of all processes and of the uni_id in each environment. All
// attempts without a keeper share it.
type Census struct {
	mu    sync.Mutex
	at    time.Time
	table Table
	uniID map[ID]string // of each process in the table
}

// Tree lists the living processes of an attempt, from a reading no older than since: those that
// descend from its roots, are in the session of a root, or have its uni_id.
func (c *Census) Tree(uniID string, roots []ID, since time.Time) []ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Before(since) {
		c.read()
	}
	set := map[int]bool{}
	for pid, p := range c.table {
		if c.uniID[p.ID] == uniID {
			set[pid] = true
		}
		for _, r := range roots {
			if r == p.ID || p.Session == r.PID && p.Start >= r.Start && !c.reused(r) {
				set[pid] = true
			}
		}
	}
	return c.table.Living(c.table.Children(), set)
}

// CPU returns the CPU time that the living processes of an attempt have used, from a reading
// no older than since; ok is false if there are none.
func (c *Census) CPU(uniID string, roots []ID, since time.Time) (sum time.Duration, ok bool) {
	ids := c.Tree(uniID, roots, since)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		sum += c.table[id.PID].CPU
	}
	return sum, len(ids) > 0
}

// reused reports whether another process has this pid now. The kernel reuses a pid only
// when nothing is left of the session named after it. c.mu is held.
func (c *Census) reused(id ID) bool {
	now, ok := c.table[id.PID]
	return id.PID == 0 || ok && now.ID != id
}

func (c *Census) read() {
	c.at = time.Now()
	c.table = Table{}
	uniIDs := map[ID]string{}
	each(func(p Proc) {
		// An environment changes when a process executes a program, but a uni_id that
		// was once in it still shows where the process came from.
		id := c.uniID[p.ID]
		if id == "" {
			id = UniID(p.PID) // now, since the process may be gone before all others are read
		}
		c.table[p.PID], uniIDs[p.ID] = p, id
	})
	c.uniID = uniIDs
}
