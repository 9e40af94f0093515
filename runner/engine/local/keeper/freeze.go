package keeper

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// If a process keeps forking, leaving its session and exiting, the processes read from /proc are
// gone before a signal reaches them. So before a tree is killed, its processes are stopped until no
// new ones turn up: stopped processes do not fork. Orphans become this keeper's children, and the
// list of its children is read in microseconds.

const (
	freezeLooks = 50  // after this many looks, the rest is left to the next call
	stopRounds  = 500 // most readings of the list of children in one look
	stopSame    = 5   // readings in a row without a new child that end the look
)

// freeze stops processes until find has found nothing new twice in a row, and returns those to
// kill: the processes of the attempt uniID, or, if uniID is "", those of no attempt.
func (k *keeper) freeze(uniID string, find func() ([]procs.ID, *scan)) []procs.ID {
	var tops map[int]string // from the last scan
	foreign := func(pid int) bool {
		of, known := tops[pid]
		return known && of != uniID
	}
	stopped := map[procs.ID]bool{}
	var ids []procs.ID
	for looks, same := 0, 0; same < 2 && looks < freezeLooks; looks++ {
		same++
		var s *scan
		ids, s = find()
		tops = s.tops
		for _, id := range ids {
			if !stopped[id] {
				stopped[id], same = true, 0
				_ = procs.Signal(id, unix.SIGSTOP)
			}
		}
		// The last look stops no orphans: no later look would identify them, and another attempt's
		// orphan would stay stopped.
		if looks+1 < freezeLooks && k.reaper.stopOrphans(k.children, foreign, stopped) {
			same = 0
		}
	}
	for id := range stopped {
		if foreign(id.PID) && !slices.Contains(ids, id) { // stopped before it was identified
			_ = procs.Signal(id, unix.SIGCONT)
		}
	}
	return ids
}

// stopOrphans stops orphans, which are children not started here, as soon as they are listed. It
// continues until no new ones turn up, and reports whether there were any. Nothing is reaped in the
// meantime, so that no pid is reused.
func (r *reaper) stopOrphans(list *os.File, foreign func(pid int) bool, stopped map[procs.ID]bool) (found bool) {
	if list == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for round, same := 0, 0; same < stopSame && round < stopRounds; round++ {
		same++
		pids, _ := procs.Pids(list)
		pids = slices.DeleteFunc(pids, func(pid int) bool { return r.want[pid] != nil || foreign(pid) })
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
		for _, pid := range pids {
			if p, ok := procs.One(pid); ok && !p.Zombie && !stopped[p.ID] {
				stopped[p.ID], found, same = true, true, 0
			}
		}
	}
	return found
}

// hasUnscannedOrphans reports whether there are orphans that s did not see. s must be the very scan
// in which an attempt had nothing left. A newer scan, made for another attempt, may already have
// found orphans of this attempt that s missed.
func (k *keeper) hasUnscannedOrphans(s *scan) bool {
	return slices.ContainsFunc(k.reaper.orphans(k.children), func(pid int) bool {
		_, seen := s.tops[pid]
		return !seen
	})
}

// freezeTree stops the tree of an attempt and returns it.
func (k *keeper) freezeTree(a *attempt) []procs.ID {
	return k.freeze(a.UniID, func() ([]procs.ID, *scan) { return k.membersOf(a, true) })
}

// suspend stops the attempt's processes. It may be called again for new processes, such as those of
// the next command. An attempt that is ending or saving its work is not suspended, because its
// processes must run to do so.
func (a *attempt) suspend() {
	if a.ending.On() || a.saving.On() {
		return
	}
	a.suspended = true
	_ = a.k.freezeTree(a)
}

func (a *attempt) resume() {
	a.suspended = false
	for _, id := range a.k.members(a) {
		_ = procs.Signal(id, unix.SIGCONT)
	}
}

// strays lists orphans that cannot be assigned to any attempt, and all their descendants.
func (k *keeper) strays() ([]procs.ID, *scan) {
	s := k.scan(true)
	set := map[int]bool{}
	for pid, uniID := range s.tops {
		if uniID == "" && !k.reaper.ours(pid) {
			set[pid] = true
		}
	}
	return s.table.Living(s.below, set), s
}

// endStrays ends strays once no attempt is live, since nothing else would end them, and they would
// hold their GPUs.
func (k *keeper) endStrays(grace time.Duration) {
	ids := k.freeze("", k.strays)
	if len(ids) == 0 {
		return
	}
	k.warn([]string{fmt.Sprintf("stopping leftover processes of earlier jobs: %s", procs.Describe(ids))})
	var e procs.Ending
	for e.Begin(grace); len(ids) > 0 && !e.Stuck(); ids = k.freeze("", k.strays) {
		e.Signal(ids, procs.ID{})
		for _, id := range ids {
			_ = procs.Signal(id, unix.SIGCONT)
		}
		e.Again(procs.LastLook)
		<-e.Look()
	}
}
