package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// early is how soon after its start an attempt must fail for the failure to count against its group
// or its devices.
const early = time.Minute

// breaker decides which groups of jobs that differ only in parameters are not worth starting:
// the first attempts of several of their jobs failed soon after their start, with the same
// error, on different GPUs, and none succeeded. The other jobs would most likely fail too. A
// limit is the number of such failures after which a group is held.
type breaker struct {
	groups map[uint64]failureGroup // by jobspec.Spec.Template
	held   []uint64                // in the order they were held
}

type failureGroup struct {
	worked  bool // an attempt succeeded
	streaks []*streak
	hold    *streak // why it is held; nil if it is not
}

// maxStreaks bounds the distinct errors of a group. A group with more has no common cause.
const maxStreaks = 16

// A streak is the jobs of one group whose first attempts failed with the same error.
type streak struct {
	kind    string
	failure state.Failure // first failure
	count   int
	gpus    []int      // indices they ran on, ascending
	common  []gpu.UUID // devices, or on a cluster the node, that all of them ran on
}

// failed counts a job's failed first attempt, and reports whether its group must be held from now
// on. If all failures were on one GPU, or one node of a cluster, it may be at fault. Then, if
// elsewhere reports that the job could run without it, twice as many failures are needed.
func (b *breaker) failed(key uint64, limit int, fl state.Failure, on gpu.Grant, elsewhere func([]gpu.UUID) bool) bool {
	g := b.groups[key]
	if g.worked {
		return false
	}
	s := g.add(fl, on)
	enough := s != nil && s.count >= limit && (len(s.common) == 0 || s.count >= 2*limit || !elsewhere(s.common))
	hold := enough && g.hold == nil
	if hold {
		g.hold = s
		b.held = append(b.held, key)
	}
	b.groups[key] = g
	return hold
}

// telling reports whether a failure counts against the job's whole group. An oom that is
// retried with more memory, or that spends no retry, does not.
func telling(f state.Fact, grows bool) bool {
	oom := f.ErrorType == state.ErrOOM && (grows || f.Uncharged != "")
	return f.ErrorType != "" && f.ErrorType != state.ErrLost && !oom && f.Seconds <= early.Seconds()
}

// add counts a failure of the group and returns its streak, or nil if there are too many streaks.
func (g *failureGroup) add(fl state.Failure, on gpu.Grant) *streak {
	kind := fl.Kind()
	i := slices.IndexFunc(g.streaks, func(s *streak) bool { return s.kind == kind })
	if i < 0 {
		if len(g.streaks) == maxStreaks {
			return nil
		}
		i = len(g.streaks)
		g.streaks = append(g.streaks, &streak{kind: kind, failure: fl, common: slices.Clone(on.UUIDs)})
	}
	s := g.streaks[i]
	s.count++
	s.common = slices.DeleteFunc(s.common, func(id gpu.UUID) bool { return !slices.Contains(on.UUIDs, id) })
	s.gpus = append(s.gpus, on.Indices...)
	slices.Sort(s.gpus)
	s.gpus = slices.Compact(s.gpus)
	return s
}

// succeeded exempts a group from the breaker for the rest of the run, and reports whether the group
// was held.
func (b *breaker) succeeded(key uint64) (released bool) {
	released = b.forget(key)
	b.groups[key] = failureGroup{worked: true}
	return released
}

// forget drops the failures of a group, and reports whether the group was held.
func (b *breaker) forget(key uint64) (released bool) {
	g := b.groups[key]
	b.groups[key] = failureGroup{worked: g.worked}
	b.held = slices.DeleteFunc(b.held, func(k uint64) bool { return k == key })
	return g.hold != nil
}

// holds returns the failures for which a group is held, or nil.
func (b *breaker) holds(key uint64) *streak { return b.groups[key].hold }

// avoided returns the GPUs with so many failures of a group that it should try others first.
func (b *breaker) avoided(key uint64, limit int) []gpu.UUID {
	for _, s := range b.groups[key].streaks {
		if s.count >= limit {
			return s.common
		}
	}
	return nil
}
