package sched

import (
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/runner/sched/stall"
)

const (
	readingLost  = 2 * time.Minute        // a reading that has not been answered by then counts as lost
	shortPause   = 50 * time.Millisecond  // the shortest poll
	longestPause = time.Minute            // between failing readings, unless the poll interval is longer
	usedFirst    = 500 * time.Millisecond // after a start, so that short jobs are sampled too
	usedEvery    = time.Second
	attendEvery  = time.Minute // between readings of all GPUs while no job waits; see attends
	listEvery    = stall.Listing
	listStep     = 128 * gpu.MiB // a drop in free memory that triggers a list
)

// readings decides when to read all GPUs, and when to read those with jobs of this run; see the
// package comment. GPUs in hand-over are separate (handover.go).
type readings struct {
	all       request
	next      time.Duration // when all may be read again
	succeeded time.Duration // when all were last read
	tried     time.Duration // when a reading of all last came back, successful or not; 0 for never
	failures  int           // in a row
	err       string        // the latest failure

	used     request
	usedNext time.Duration // when the GPUs in use may be read again
	listNext time.Duration // when to read them with their processes
	lists    []gpu.UUID    // GPUs to list immediately
	again    time.Duration // when refresh may request lists again
}

// A request is the latest requested reading of one kind, which may still be in progress.
type request struct {
	at  time.Duration // when the reading was last requested
	out bool          // and not yet answered
}

func (r *request) waits(now time.Duration) bool { return r.out && now-r.at <= readingLost }

// nextDue returns when to act: at next or, if a reading is in progress, when it counts as lost.
func (r *request) nextDue(next time.Duration) time.Duration {
	if r.out {
		return r.at + readingLost + 1
	}
	return next
}

// begun schedules an early reading of a new job's GPUs.
func (r *readings) begun(now time.Duration) {
	if r.usedNext <= now || r.usedNext > now+usedFirst {
		r.usedNext = now + usedFirst
	}
}

// list requests process lists of some GPUs immediately.
func (r *readings) list(ids ...gpu.UUID) {
	for _, id := range ids {
		if !slices.Contains(r.lists, id) {
			r.lists = append(r.lists, id)
		}
	}
}

// refresh requests process lists of GPUs where an outdated list would let a job start.
func (r *readings) refresh(now time.Duration, ids []gpu.UUID) {
	if len(ids) > 0 && now >= r.again {
		r.again = now + gpu.FreshFor
		r.list(ids...)
	}
}

// answered records the answer to a reading of all GPUs. The pause grows while readings fail.
func (r *readings) answered(now time.Duration, err string, poll time.Duration) {
	r.all.out, r.tried, r.err = false, now, err
	if err == "" {
		r.succeeded, r.failures = now, 0
		return
	}
	r.failures++
	r.next = max(r.next, r.all.at+r.pause(poll))
}

// pause returns the time between readings of all GPUs.
func (r *readings) pause(poll time.Duration) time.Duration {
	poll = max(poll, shortPause)
	return min(poll<<min(r.failures, 10), max(longestPause, poll))
}

// due returns the readings to request now. wanted means that a job waits for a GPU, or that other
// runs' use of GPUs matters. A reading of all GPUs takes longer than a quick reading of those in
// hand-over, and waits for it.
func (r *readings) due(now time.Duration, live *attempts, wanted, handingOver bool, poll time.Duration) (due []Read) {
	stray := live.strayDue()
	if (wanted && !handingOver || stray > 0 && now >= stray) && now >= r.next && !r.all.waits(now) {
		r.all, r.next = request{now, true}, now+r.pause(poll)
		r.used.at, r.usedNext, r.listNext = now, now+usedEvery, now+listEvery
		due = append(due, Read{})
	}
	if len(r.lists) > 0 {
		due = append(due, Read{UUIDs: r.lists, Processes: true})
		r.lists = nil
	}
	if live.onGPUs == 0 || now < r.usedNext || r.used.waits(now) {
		return due
	}
	ids := live.inUse()
	if len(ids) == 0 {
		return due
	}
	list := now >= r.listNext
	if r.used, r.usedNext = (request{now, true}), now+usedEvery; list {
		r.listNext = now + listEvery
	}
	return append(due, Read{UUIDs: ids, Processes: list})
}

// nextDue calls by with the times at which readings are due.
func (r *readings) nextDue(live *attempts, wanted bool, by func(time.Duration)) {
	if live.onGPUs > 0 {
		by(r.used.nextDue(r.usedNext))
	}
	if stray := live.strayDue(); stray > 0 {
		by(max(stray, r.next))
	}
	by(r.all.nextDue(0))
	if wanted {
		by(r.next)
	}
}

// sampling decides when to sample the progress of attempts whose jobs have a stall or prune rule.
type sampling struct {
	next time.Duration // 0 while none of them runs
	out  request
}

// due returns the attempts to sample now. every returns an attempt's sampling interval, 0 for never.
func (s *sampling) due(now time.Duration, live *attempts, every func(*attempt) time.Duration) (uniIDs []string) {
	pause := time.Duration(0)
	for _, a := range live.all {
		if e := every(a); e > 0 {
			uniIDs = append(uniIDs, a.uniID)
			if pause == 0 || e < pause {
				pause = e
			}
		}
	}
	switch {
	case len(uniIDs) == 0:
		s.next = 0
	case s.next == 0 || s.next > now+pause:
		s.next = now + pause
	case now >= s.next && !s.out.waits(now):
		s.out, s.next = request{now, true}, now+pause
		return uniIDs
	}
	return nil
}

// nextDue calls by with the time at which a sample is due.
func (s *sampling) nextDue(by func(time.Duration)) {
	if s.next > 0 {
		by(s.out.nextDue(s.next))
	}
}
