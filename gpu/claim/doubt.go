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

// Whatever could not be read completely may contain claims: that is doubt, and nothing
// starts in doubt. But nobody may keep everyone else off the GPUs by what they put into
// their folder:
//
//   - If this process lacks something (descriptors, memory, a readable disk), there is
//     doubt until it has it again.
//   - If another user's folder cannot be read completely (it hangs, it is overfull),
//     there is doubt the first time; then, while a process of that user holds a lock
//     there, for doubtFor in total. After that, the user's claims seen last count if
//     their processes live, each for its entire GPUs. All other GPUs are free.
//   - Files that nobody holds a lock on never cause doubt.
//
// A cheat could more easily claim all GPUs outright, and would be named like any holder.

const (
	doubtFor   = 10 * time.Second
	doubtAgain = time.Hour // after which a folder may cause doubt again
)

type doubts struct {
	mu    sync.Mutex
	since map[string]time.Time  // by folder: when reading it first failed
	late  map[string]bool       // folders that the last reading did not complete
	known map[string][]*content // by folder: what the last complete reading found
}

// any reports whether some folder was not read completely.
func (d *doubts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.late) > 0
}

// judge records what was found in a folder and reports whether it leaves doubt.
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

// short records what was found in a folder that was not read completely.
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

// whole returns a claim that leaves nothing of its devices to others.
func (c *content) whole() *content {
	w := *c
	w.Share = false
	return &w
}

// unreadable reports whether reading failed, rather than what was read being wrong,
// and records that: the error may hide a claim.
func (s *sight) unreadable(f folder, path string, err error) bool {
	cure := ""
	switch {
	case errors.Is(err, unix.EMFILE):
		cure = ": raise ulimit -n"
	case errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE), errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EREMOTEIO):
		if mounted(f, f.path) || mounted(f, path) { // a file system that its user mounted there
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

// tooMany records that a folder holds more than is read.
func (s *sight) tooMany(f folder) {
	s.warn("%s has too many files to read them all%s", f.path, by(f))
	if f.uid == os.Getuid() {
		s.warn("%s: remove the files there that none of your runs needs", f.path)
	}
	s.short = s.short || host.UserLock(f.dev, f.uid) != 0
}

// by names the process that may hold claims in a folder.
func by(f folder) string {
	if pid := host.UserLock(f.dev, f.uid); pid != 0 {
		return fmt.Sprintf(" (process %d of uid %d holds locks there: ask that user to clean up)", pid, f.uid)
	}
	return ""
}

// mounted reports whether a path is on another file system than the root of claims. It
// asks neither.
func mounted(f folder, path string) bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &x)
	return err == nil && unix.Mkdev(x.Dev_major, x.Dev_minor) != f.dev
}
