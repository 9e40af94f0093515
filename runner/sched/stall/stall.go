// Package stall tells whether an attempt has stalled: it has done nothing for as long as
// its job's stall says. That is no output, and unless it names output alone, next to no
// CPU time and no use of its GPUs.
//
// What is not known (the use of a MIG instance, CPU time on another host) never makes a job
// stall. Nor does time during which nobody looked, as on a suspended machine. The package
// is pure: times are durations of CLOCK_BOOTTIME that the caller passes in.
package stall

import (
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Listing is how often GPUs in use are read with their utilization.
const Listing = 5 * time.Second

const (
	looks     = 20 // for each stall
	least     = 100 * time.Millisecond
	most      = 30 * time.Second
	idleShare = 100 // a process that waits uses less than 1/idleShare of a core
)

// Pace returns how often to look at a job; 0 if it says nothing about stalls.
func Pace(s jobspec.Stall) time.Duration {
	limit := s.After
	if limit == 0 || s.Output > 0 && s.Output < limit {
		limit = s.Output
	}
	if limit == 0 {
		return 0
	}
	return min(max(limit/looks, least), most)
}

// Work is what an attempt has done since it started.
type Work struct {
	UniID  string
	Output int64         // bytes; -1 if unknown
	CPU    time.Duration // of all its processes; -1 if unknown
	Points state.Curve   // points of its prune metric since the last time
}

// A Watch is what has been seen of an attempt. The zero value has seen nothing.
type Watch struct {
	looked  time.Duration // when; 0 for never
	work    Work          // work done by then
	read    time.Duration // when its GPUs were last read
	sampled time.Duration // time of the newest sample of their utilization
	lit     bool          // they have been busy since the last look

	mute  time.Duration // how long it has had no output
	quiet time.Duration // how long it has done nothing at all
	told  string        // last result of Look
}

// Lit notes a reading of one of its GPUs.
func (w *Watch) Lit(r *gpu.Reading, now time.Duration) {
	if !r.Listed && len(r.Samples) == 0 {
		return
	}
	w.read = now
	newest := w.sampled
	for _, s := range r.Samples {
		w.lit = w.lit || s.At > w.sampled && s.Percent > 0
		newest = max(newest, s.At)
	}
	w.sampled = newest
}

// Look adds one look at the attempt, which has GPUs or not. It returns what the attempt has
// not done for how long, if that is too long; else "".
func (w *Watch) Look(s jobspec.Stall, did Work, gpus bool, now time.Duration) string {
	was, lit, passed := w.work, w.lit, min(now-w.looked, 2*Pace(s))
	if w.looked == 0 {
		passed, was = 0, did
	}
	w.looked, w.work, w.lit = now, did, false
	if w.mute += passed; did.Output < 0 || did.Output != was.Output {
		w.mute = 0
	}
	if !gpus || w.read > 0 && now-w.read <= max(passed, 2*Listing) {
		w.quiet += passed
	}
	used := did.CPU - was.CPU // less than 0 if a process has ended that nobody waited for
	if w.mute == 0 || lit || did.CPU < 0 || used < 0 || used > passed/idleShare {
		w.quiet = 0
	}
	// A stall can be shorter than the pauses between readings.
	seen := !gpus || w.told != "" || now-w.read <= s.After
	switch {
	case s.After > 0 && w.quiet >= s.After && seen && gpus:
		w.told = "no output, CPU or GPU use for " + state.Spell(w.quiet)
	case s.After > 0 && w.quiet >= s.After && seen:
		w.told = "no output or CPU use for " + state.Spell(w.quiet)
	case s.Output > 0 && w.mute >= s.Output:
		w.told = "no output for " + state.Spell(w.mute)
	default:
		w.told = ""
	}
	return w.told
}

// Told returns what Look returned last.
func (w *Watch) Told() string { return w.told }
