package claim

import (
	"path/filepath"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A folder that could not be read completely may contain unseen claims. This is called doubt, and
// nothing starts while there is doubt. But no user can block all others through the content of
// their folder:
//
//   - If this process lacks a resource (descriptors, memory, a readable disk), there is doubt until
//     the resource is available again.
//   - If another user's folder cannot be read completely (it hangs, or is overfull), there is doubt
//     only the first time. After that, while a process of that user holds a lock there, all devices
//     count as claimed by that user. Otherwise, the claims seen last count if their processes are
//     alive. So a cheater gains no more than by claiming openly.
//   - Files that no process holds a lock on never cause doubt.

// doubtInterval is how long a folder that has caused doubt cannot cause doubt again.
const doubtInterval = time.Hour

// A doubt is a Reader's record of a folder.
type doubt struct {
	since       time.Time  // when it last caused doubt
	late        bool       // the last reading was incomplete
	hung        int        // abandoned readings that have not returned
	known       []*content // result of the last complete reading
	quarantines []gpu.Quarantine
}

// about returns the doubt about a folder. The caller holds r.mu.
func (r *Reader) about(path string) *doubt {
	if r.doubts[path] == nil {
		r.doubts[path] = &doubt{}
	}
	return r.doubts[path]
}

// hung adds n abandoned readings of a folder and reports whether there are any.
func (r *Reader) hung(path string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.about(path)
	d.hung += n
	return d.hung > 0
}

// anyLate reports whether any folder was not read completely.
func (r *Reader) anyLate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.doubts {
		if d.late || d.hung > 0 {
			return true
		}
	}
	return false
}

// judge merges the result of reading f (in) into s, and records whether that result leaves doubt.
func (r *Reader) judge(f folder, s, in *view) {
	s.warnings = append(s.warnings, in.warnings...)
	if in.short && !in.ours {
		r.short(f, s, in.found)
		return
	}
	s.found, s.wishes = append(s.found, in.found...), append(s.wishes, in.wishes...)
	s.quarantines, s.usages = append(s.quarantines, in.quarantines...), append(s.usages, in.usages...)
	if s.doubt = s.doubt || in.ours; !in.ours {
		r.mu.Lock()
		defer r.mu.Unlock()
		d := r.about(f.path)
		d.late, d.known, d.quarantines = false, in.found, in.quarantines
	}
}

// silent records in s that a folder does not respond.
func (r *Reader) silent(f folder, s *view) {
	s.warn("%s does not answer: skipped", f.path)
	r.short(f, s, nil)
}

// short adds the content of an incompletely read folder to s.
func (r *Reader) short(f folder, s *view, found []*content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, now := r.about(f.path), time.Now()
	first := now.Sub(d.since) > doubtInterval
	if first {
		d.since = now
	}
	d.late = true
	s.quarantines = append(s.quarantines, d.quarantines...)
	switch {
	case first:
		s.found, s.doubt = append(s.found, found...), true
		return
	case host.UserLock(filepath.Dir(f.path), f.uid) != 0:
		found = append(found, unread(f.uid))
	}
	for _, c := range d.known {
		if c.exists() == nil && !slices.ContainsFunc(found, func(o *content) bool { return o.UniID == c.UniID }) {
			found = append(found, c)
		}
	}
	s.found = append(s.found, found...)
}

// unread returns a claim on all devices, which stands in for a user's unreadable claims.
func unread(uid int) *content {
	return &content{identity: identity{UID: uid}, UniID: "unread", Job: "unreadable claims", Devices: []contentDevice{{UUID: gpu.Every}}}
}
