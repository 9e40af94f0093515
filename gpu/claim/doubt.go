package claim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// What could not be read to its end may hold claims, and nothing starts in doubt. But
// nobody may keep all others from their GPUs by what he puts into his folder:
//
//   - What this process lacks (descriptors, memory, a disk that reads) is doubt until
//     it is there again.
//   - Another user's folder that cannot be read to its end (it hangs, it is overfull)
//     is doubt the first time; then, while a process of his holds a lock there, for
//     doubtFor in all. After that his claims count that were seen last and whose
//     processes live, on the whole of their GPUs; the other GPUs are free for all.
//   - Files that nobody holds a lock on are never a reason for doubt.
//
// To claim all GPUs outright costs a cheat less, and is named like any claim.

const (
	doubtFor   = 10 * time.Second
	doubtAgain = time.Hour // after which a folder may cause doubt anew
)

type doubts struct {
	mu    sync.Mutex
	since map[string]time.Time  // by folder: when it could not be read first
	late  map[string]bool       // those that the last reading did not read to their end
	known map[string][]*content // by folder: what the last whole reading found
}

// any reports whether some folder was not read to its end.
func (d *doubts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.late) > 0
}

// judge takes over what was found in a folder, and reports whether it leaves doubt.
func (d *doubts) judge(f folder, s, in *sight) bool {
	switch {
	case in.ours:
		s.found = append(s.found, in.found...)
		return true
	case in.short:
		return d.short(f, s, in.found)
	}
	s.found = append(s.found, in.found...)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.late, f.path)
	if d.known == nil {
		d.known = map[string][]*content{}
	}
	if d.known[f.path] = in.found; len(in.found) == 0 {
		delete(d.known, f.path)
	}
	return false
}

// short takes over what was found in a folder that was not read to its end.
func (d *doubts) short(f folder, s *sight, found []*content) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since, d.late = map[string]time.Time{}, map[string]bool{}
	}
	now := time.Now()
	since, before := d.since[f.path]
	first := !before || now.Sub(since) > doubtAgain
	if first {
		d.since[f.path], since = now, now
	}
	d.late[f.path] = true
	if first || now.Sub(since) < doubtFor && host.UserLock(f.dev, f.uid) != 0 {
		s.found = append(s.found, found...)
		return true
	}
	for _, c := range found {
		s.found = append(s.found, c.whole())
	}
	for _, c := range d.known[f.path] {
		if c.exists() == nil && !slices.ContainsFunc(found, func(o *content) bool { return o.UniID == c.UniID }) {
			s.found = append(s.found, c.whole())
		}
	}
	return false
}

// whole is a claim as one that leaves nothing of its devices to others.
func (c *content) whole() *content {
	w := *c
	w.Share = false
	return &w
}

// unreadable reports whether an error is one of reading, not of what lies there, and
// notes it: what it hides may be a claim.
func (s *sight) unreadable(f folder, path string, err error) bool {
	cure := ""
	switch {
	case errors.Is(err, unix.EMFILE):
		cure = ": raise ulimit -n"
	case errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE), errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EREMOTEIO):
		var st unix.Stat_t
		if unix.Stat(f.path, &st) == nil && st.Dev != f.dev { // a file system that its user has put there
			s.short = true
			s.warn("%s cannot be read: %v%s", path, err, by(f))
			return true
		}
	default:
		return false
	}
	s.ours = true
	s.warn("%s cannot be read, and nothing starts until it can: %v%s", path, err, cure)
	return true
}

// tooMany: a folder holds more than is read.
func (s *sight) tooMany(f folder) {
	s.warn("%s holds too many files, not all of them are read%s", f.path, by(f))
	if f.uid == os.Getuid() {
		s.warn("%s: remove the files there that no run of yours needs", f.path)
	}
	s.short = s.short || host.UserLock(f.dev, f.uid) != 0
}

// by names the process that may hold claims in a folder.
func by(f folder) string {
	if pid := host.UserLock(f.dev, f.uid); pid != 0 {
		return fmt.Sprintf(" (process %d of uid %d holds locks there: ask that user to tidy up)", pid, f.uid)
	}
	return ""
}
