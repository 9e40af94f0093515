package local

import (
	"os"
	"sync"
	"time"

	"gpurun/runner/engine/local/procs"
)

// A census is one reading of all processes and of the uni_id in each environment. All
// attempts without a keeper share it.
type census struct {
	mu    sync.Mutex
	at    time.Time
	table procs.Table
	uniID map[int]string
	known map[procs.ID]string // uni_ids in environments that have been read
}

// tree lists the living processes of an attempt, from a reading no older than since:
// those that descend from its roots, are in a session of theirs, or have its uni_id.
func (c *census) tree(uniID string, roots []procs.ID, since time.Time) []procs.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Before(since) {
		c.read()
	}
	set := map[int]bool{}
	for pid, p := range c.table {
		if c.uniID[pid] == uniID {
			set[pid] = true
		}
		for _, r := range roots {
			if r == p.ID || p.Session == r.PID && p.Start >= r.Start && !c.reused(r) {
				set[pid] = true
			}
		}
	}
	c.table.Below(set)
	delete(set, os.Getpid())
	var ids []procs.ID
	for pid := range set {
		if p := c.table[pid]; !p.Zombie {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// reused reports whether another process has this pid now. The kernel reuses a pid only
// when nothing is left of the session named after it. c.mu is held.
func (c *census) reused(id procs.ID) bool {
	now, ok := c.table[id.PID]
	return id.PID == 0 || ok && now.ID != id
}

func (c *census) read() {
	c.at = time.Now()
	c.table = procs.Read()
	c.uniID = make(map[int]string, len(c.table))
	known := make(map[procs.ID]string, len(c.table))
	for pid, p := range c.table {
		// An environment changes when a process executes a program, but a uni_id that
		// was once in it still shows where the process came from.
		id, ok := c.known[p.ID]
		if !ok || id == "" {
			id = procs.UniID(pid)
		}
		known[p.ID], c.uniID[pid] = id, id
	}
	c.known = known
}
