// Package stall determines whether an attempt has stalled: it has made no progress for the time in
// its job's stall setting. That means no output and, unless the setting is only about output, next
// to no CPU time and no use of its GPUs.
//
// Unknown values (the use of a MIG instance, CPU time on another host) never make a job stall, and
// neither does time without looks, for example while the machine is suspended. The package is pure:
// callers pass times as durations of CLOCK_BOOTTIME.
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
	looks     = 20 // number of looks per stall time
	least     = 100 * time.Millisecond
	most      = 30 * time.Second
	idleShare = 100 // a waiting process uses less than 1/idleShare of a core
)

// Pace returns how often to look at a job; 0 if its stall settings are unset.
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
	Points state.Curve   // points of its prune metric since the last sample
	Rule   string        // the rule that read them
}

// A Watch is the observed state of an attempt. The zero value has no observations.
type Watch struct {
	looked  time.Duration // time of the last Look; 0 for never
	work    Work          // work done by then
	read    time.Duration // when its GPUs were last read
	sampled time.Duration // time of the newest sample of their utilization
	lit     bool          // they have been busy since the last look

	mute  time.Duration // how long it has had no output
	quiet time.Duration // how long it has done nothing at all
	told  string        // last result of Look
}

// Lit records a reading of one of the attempt's GPUs.
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

// Look takes one look at the attempt; gpus means that it has GPUs. If the attempt has made no
// progress for too long, Look returns what is missing and for how long; else "".
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
	used := did.CPU - was.CPU // negative if a process that was not waited for has ended
	if w.mute == 0 || lit || did.CPU < 0 || used < 0 || used > passed/idleShare {
		w.quiet = 0
	}
	// A stall time can be shorter than the pauses between readings.
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

// LastReport returns the last result of Look.
func (w *Watch) LastReport() string { return w.told }
