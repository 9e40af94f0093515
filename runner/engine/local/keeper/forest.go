package keeper

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// A forest maps processes to attempts. Since the keeper is the subreaper of everything below it,
// each such process descends from one of the keeper's own children. That child is the first process
// of an attempt, or an orphan. An orphan belongs to the attempt that the first of these identifies:
// an earlier scan that found the orphan in the attempt's tree, the orphan's session, the uni_id in
// its environment, the log it writes to, and its age, if only one live attempt is old enough to
// have started it.
type forest struct {
	mu    sync.Mutex
	roots []root
	seen  map[procs.ID]string // uni_id
}

// A root is a process that an attempt started directly.
type root struct {
	id      procs.ID
	attempt *attempt
}

// drop forgets an attempt that is over.
func (f *forest) drop(a *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roots = slices.DeleteFunc(f.roots, func(r root) bool { return r.attempt == a })
	maps.DeleteFunc(f.seen, func(_ procs.ID, uniID string) bool { return uniID == a.UniID })
}

// owner returns the attempt of one of the keeper's children, or "". f.mu is held.
func (f *forest) owner(k *keeper, p procs.Proc, live []*attempt) string {
	for _, r := range f.roots {
		if r.id == p.ID {
			return r.attempt.UniID
		}
	}
	if k.reaper.ours(p.PID) {
		return "" // just started: it will be a root in a moment
	}
	uniID := f.orphan(p, live)
	if uniID != "" {
		f.seen[p.ID] = uniID
	}
	return uniID
}

func (f *forest) orphan(p procs.Proc, live []*attempt) string {
	if uniID := f.known(p.ID, p.Session); uniID != "" {
		return uniID
	}
	env := procs.UniID(p.PID)
	for _, a := range live {
		if env != "" && env == a.UniID {
			return env
		}
	}
	for _, a := range live {
		if dev, ino := a.log(); ino != 0 && procs.Writes(p.PID, dev, ino) {
			return a.UniID
		}
	}
	return f.onlyCandidate(p.ID, live)
}

// known returns the attempt that an orphan belongs to according to an earlier scan or its session,
// or "".
func (f *forest) known(id procs.ID, session int) string {
	if uniID := f.seen[id]; uniID != "" {
		return uniID
	}
	for _, r := range f.roots {
		if r.id.PID == session && id.Start >= r.id.Start {
			return r.attempt.UniID
		}
	}
	return ""
}

// onlyCandidate returns the one attempt that is old enough to have started a process, or "" if there
// are several or none.
func (f *forest) onlyCandidate(id procs.ID, live []*attempt) string {
	found := ""
	for _, a := range live {
		for _, r := range f.roots {
			if r.attempt != a || r.id.Start > id.Start {
				continue
			}
			if found != "" && found != a.UniID {
				return ""
			}
			found = a.UniID
		}
	}
	return found
}

// formerOwner returns the attempt that an ended orphan came from, or nil.
func (f *forest) formerOwner(k *keeper, e end) *attempt {
	live := k.liveAttempts()
	f.mu.Lock()
	uniID := cmp.Or(f.known(e.ID, e.session), f.onlyCandidate(e.ID, live))
	f.mu.Unlock()
	return k.find(uniID)
}

// left lists the remaining processes of an attempt whose own process has ended. Usually the keeper
// has no orphans at all, which takes one system call to find out.
func (k *keeper) left(a *attempt) []procs.ID {
	if a.UniFile == "" && len(k.reaper.orphans(k.children)) == 0 {
		return nil
	}
	ids, s := k.membersOf(a, false)
	if len(ids) == 0 { // one may have forked and exited while the table was read
		ids, s = k.membersOf(a, false)
	}
	if len(ids) == 0 && k.hasUnscannedOrphans(s) {
		ids = k.freezeTree(a)
		for _, id := range ids {
			_ = procs.Signal(id, unix.SIGCONT)
		}
	}
	return ids
}
