package keeper

import (
	"os"
	"sync"
	"time"

	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// A scan is one reading of all processes, together with the attempt that each of the
// keeper's children belongs to. Attempts that want one at the same time share it:
// stopping 150 jobs must not read /proc 150 times per look.
type scan struct {
	began, ended time.Duration // CLOCK_BOOTTIME
	table        procs.Table
	below        procs.Children
	tops         map[int]string // uni_ids, or "", by pid of the keeper's child
}

// scans manages a keeper's scans, which run one at a time.
type scans struct {
	mu    sync.Mutex
	last  *scan
	spent time.Duration // on recent scans
}

// Scans that are not urgent take at most 1/scanShare of the time in the long run, with bursts of
// up to scanBurst.
const (
	scanShare = 10
	scanBurst = 50 * time.Millisecond
)

// scan returns a scan that began after the call.
func (k *keeper) scan(hurry bool) *scan {
	asked := host.Boottime()
	c := &k.scans
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		if c.last.began >= asked {
			return c.last
		}
		c.spent = max(0, c.spent-(host.Boottime()-c.last.ended)/scanShare)
		if over := c.spent - scanBurst; over > 0 && !hurry {
			time.Sleep(min(over*scanShare, procs.LastLook)) // requests during this pause share the next scan
		}
	}
	s := &scan{began: host.Boottime()}
	s.table = procs.Read()
	s.below = s.table.Children()
	s.tops = k.forest.tops(k, s)
	s.ended = host.Boottime()
	c.last, c.spent = s, c.spent+s.ended-s.began
	return s
}

// tops assigns the keeper's children to attempts.
func (f *forest) tops(k *keeper, s *scan) map[int]string {
	live := k.liveAttempts()
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
	ids := s.table.Living(s.below, set)
	k.forest.mu.Lock()
	defer k.forest.mu.Unlock()
	for _, id := range ids {
		k.forest.seen[id] = a.UniID
	}
	return ids, s
}
