package local

import (
	"os"
	"sync"
	"time"

	"gpurun/runner/engine/local/procs"
)

// A scan is one reading of all processes, and which attempt each child of the
// keeper's belongs to. All attempts that want one at a time share it: to stop 150
// jobs must not mean to read /proc 150 times for each look.
type scan struct {
	began, ended time.Duration // CLOCK_BOOTTIME
	table        procs.Table
	below        procs.Children
	tops         map[int]string // uni_ids, or "", by pid of the keeper's child
}

// scans are those of a keeper, one after another.
type scans struct {
	mu    sync.Mutex
	last  *scan
	spent time.Duration // on scans of late
}

// Scans take one part in scanShare of the time in the long run, where nobody is in a
// hurry; scanBurst may be taken at once.
const (
	scanShare = 10
	scanBurst = 50 * time.Millisecond
)

// scan returns a scan that began after it was asked for.
func (k *keeper) scan(hurry bool) *scan {
	asked := boottime()
	c := &k.scans
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		if c.last.began >= asked {
			return c.last
		}
		c.spent = max(0, c.spent-(boottime()-c.last.ended)/scanShare)
		if over := c.spent - scanBurst; over > 0 && !hurry {
			time.Sleep(min(over*scanShare, lastLook)) // who asks meanwhile gets the one that begins then
		}
	}
	s := &scan{began: boottime()}
	s.table = procs.Read()
	k.reaper.settle() // nobody may be taken for an orphan before it is planted
	s.below = s.table.Children()
	s.tops = k.forest.tops(k, s)
	s.ended = boottime()
	c.last, c.spent = s, c.spent+s.ended-s.began
	return s
}

// tops finds out whose the keeper's children are.
func (f *forest) tops(k *keeper, s *scan) map[int]string {
	live := k.living()
	f.mu.Lock()
	defer f.mu.Unlock()
	tops := map[int]string{}
	for _, pid := range s.below[os.Getpid()] {
		tops[pid] = f.owner(k, s.table[pid], live)
	}
	return tops
}

// members lists the living processes of an attempt.
func (k *keeper) members(a *attempt) []procs.ID {
	ids, _ := k.membersOf(a, false)
	return ids
}

func (k *keeper) membersOf(a *attempt, hurry bool) ([]procs.ID, *scan) {
	s := k.scan(hurry)
	set := map[int]bool{}
	for pid, uniID := range s.tops {
		if uniID == a.UniID {
			set[pid] = true
		}
	}
	for _, id := range a.reported(s.table) {
		set[id.PID] = true
	}
	ids := s.living(set)
	k.forest.mu.Lock()
	defer k.forest.mu.Unlock()
	for _, id := range ids {
		k.forest.seen[id] = a.UniID
	}
	return ids, s
}

// living lists what lives of these processes and of all below them.
func (s *scan) living(set map[int]bool) (ids []procs.ID) {
	s.below.Add(set)
	delete(set, os.Getpid())
	for pid := range set {
		if p := s.table[pid]; !p.Zombie && p.PID != 0 {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
