package terminal

import (
	"fmt"
	"strings"
	"time"

	"gpurun/state"
)

// Totals are a batch in a few numbers.
type Totals struct {
	Total   int // selected jobs
	Done    int // nothing is left to do for them, and nothing went wrong
	Bad     int // every other end
	Running int
	Left    int // running ones included

	counts map[state.Phase]int
}

// Count folds the phases of a snapshot.
func Count(s state.Snapshot) Totals {
	t := Totals{Total: s.Total, Running: s.Counts[state.Running], counts: s.Counts}
	for phase, n := range s.Counts {
		switch {
		case done(phase):
			t.Done += n
		case phase.Ended():
			t.Bad += n
		default:
			t.Left += n
		}
	}
	return t
}

func done(p state.Phase) bool {
	return p == state.Succeeded || p == state.UpToDate || p == state.NotNeeded
}

// String is "12/24 done, 1 failed, 4 running, 1 waiting, 6 pending": what is done,
// and the states of all else in their own words, those that a person must see first.
func (t Totals) String() string {
	s := fmt.Sprintf("%d/%d done", t.Done, t.Total)
	for _, open := range []bool{false, true} {
		for _, p := range phaseOrder {
			if n := t.counts[p]; n > 0 && !done(p) && p.Ended() != open {
				s += fmt.Sprintf(", %d %s", n, p)
			}
		}
	}
	return s
}

// phaseOrder is that of counts in words: what is good, what is open, what is not good.
var phaseOrder = []state.Phase{
	state.Succeeded, state.UpToDate, state.NotNeeded, state.Running, state.Waiting, state.Pending,
	state.Failed, state.Timeout, state.OOM, state.Lost, state.Blocked, state.Cancelled, state.Interrupted,
}

// Phases is "20 succeeded, 4 up to date"; phases without a job are left out.
func Phases(counts map[state.Phase]int) string {
	var parts []string
	for _, p := range phaseOrder {
		if n := counts[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p))
		}
	}
	if len(parts) == 0 {
		return "no jobs"
	}
	return strings.Join(parts, ", ")
}

// pace knows how long jobs take, from those that ended well.
type pace struct {
	n   int
	sum time.Duration
}

func (p *pace) add(d time.Duration) {
	if d > 0 {
		p.n++
		p.sum += d
	}
}

// left guesses the time until all is done, if as many jobs as now run side by
// side; negative when there is nothing to go by.
func (p pace) left(s state.Snapshot, now time.Time) time.Duration {
	t := Count(s)
	if p.n == 0 || t.Left == 0 || t.Running == 0 {
		return -1
	}
	mean := p.sum / time.Duration(p.n)
	work := time.Duration(t.Left-t.Running) * mean
	var longest time.Duration
	for _, v := range s.Running {
		rest := mean
		if !v.Started.IsZero() {
			rest = max(mean-now.Sub(v.Started), 0)
		}
		work += rest
		longest = max(longest, rest)
	}
	return max(work/time.Duration(t.Running), longest)
}
