package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
)

// A wish describes what a run waits for. It is a file next to its user's claims, locked by the run,
// and stops counting when the run ends.

const wishSuffix = ".wish"

// These limit other users' wishes.
const (
	maxWishes  = 8 // maximum per user; the oldest ones count
	maxAsks    = 8
	maxJobs    = 1 << 20
	maxSeconds = 1e9 // maximum GPU seconds reported by a user
)

type wishContent struct {
	Version int `json:"version"`
	identity
	Wish gpu.Wish `json:"wish"`
}

// parseWish parses a wish from an untrusted writer.
func parseWish(b []byte) (*wishContent, error) {
	var c wishContent
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("not a wish: %w", err)
	}
	w := &c.Wish
	switch {
	case c.Version < 1 || c.PID < 1 || w.Run == "":
		return nil, errors.New("not a wish: it lacks a version, a pid or a run")
	case len(w.Requests) > maxAsks:
		return nil, fmt.Errorf("it makes too many requests: %d", len(w.Requests))
	}
	w.Run, w.Name, w.Used = cut(w.Run), cut(w.Name), min(max(w.Used, 0), maxSeconds)
	w.HostResources = bounded(w.HostResources)
	if now := time.Now(); w.Since.After(now) {
		w.Since = now
	}
	for i := range w.Requests {
		a := &w.Requests[i]
		if len(a.UUIDs) > maxDevices {
			return nil, fmt.Errorf("it names too many devices: %d", len(a.UUIDs))
		}
		a.Jobs, a.Min = min(max(a.Jobs, 0), maxJobs), min(max(a.Min, 0), maxDevices)
		a.Room, a.Most = min(max(a.Room, 0), maxDevices), min(max(a.Most, 0), maxDevices)
		a.HostResources = bounded(a.HostResources)
		a.Memory, a.MaxUtil = min(max(a.Memory, 0), maxMemory), min(max(a.MaxUtil, 0), math.MaxInt8)
	}
	return &c, nil
}

// wishes returns the wishes of other processes, at most maxWishes per user.
func wishes(found []*wishContent) (list []gpu.Wish) {
	slices.SortStableFunc(found, func(a, b *wishContent) int { return a.Wish.Since.Compare(b.Wish.Since) })
	type run struct { // any user can use the ID of another user's run
		uid int
		id  string
	}
	counts, seen := map[int]int{}, map[run]bool{}
	for _, c := range found {
		of := run{c.UID, c.Wish.Run}
		if c.mine() || counts[c.UID] == maxWishes || seen[of] {
			continue
		}
		counts[c.UID]++
		seen[of] = true
		if c.Wish.UID, c.Wish.User = c.UID, login(c.UID); c.here() {
			c.Wish.PID = c.PID
		}
		list = append(list, c.Wish)
	}
	return list
}

// A Wisher publishes the wish of this process's run. It is safe for concurrent use.
type Wisher struct {
	roots []string

	mu   sync.Mutex
	file *held
}

// NewWisher returns a wisher that publishes below the first usable root.
func NewWisher(roots []string) *Wisher { return &Wisher{roots: roots} }

// Publish replaces the run's wish. A wish without requests means that the run waits for nothing. If
// it also lists no cores or memory, its file is removed.
func (w *Wisher) Publish(wish gpu.Wish) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(wish.Requests) == 0 && wish.CPUs == 0 && wish.RAM == 0 {
		w.file.end()
		w.file = nil
		return nil
	}
	c := &wishContent{Version: version, identity: self(), Wish: wish}
	if w.file != nil && w.file.linked() {
		return w.file.rewrite(c)
	}
	w.file.end()
	var err error
	if w.file, _, err = create(w.roots, cut(wish.Run), wishSuffix, c); err != nil {
		return fmt.Errorf("other runs cannot see what this run is waiting for: %w", err)
	}
	return nil
}

// Close removes the wish.
func (w *Wisher) Close() { _ = w.Publish(gpu.Wish{}) }
