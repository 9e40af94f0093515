package terminal

import (
	"fmt"
	"strings"

	"gpurun/state"
)

// Totals are a batch in a few numbers.
type Totals struct {
	Total int // selected jobs
	Done  int // ended well, or needing nothing
	Bad   int // ended otherwise
	Left  int // not ended, including running ones

	counts map[state.Phase]int
}

// Count sums up the jobs by phase.
func Count(counts map[state.Phase]int) Totals {
	t := Totals{counts: counts}
	for phase, n := range counts {
		t.Total += n
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
	return p == state.Succeeded || p == state.UpToDate || p == state.NotNeeded || p == state.Pruned
}

// String returns "12/24 done, 1 failed, 4 running, 1 waiting, 6 pending": what is done,
// then the other states, bad ones first.
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

// phaseOrder is the order of counts: good, open, bad.
var phaseOrder = []state.Phase{
	state.Succeeded, state.UpToDate, state.NotNeeded, state.Pruned, state.Running, state.Queued, state.Waiting, state.Pending,
	state.Failed, state.Timeout, state.OOM, state.Stalled, state.Lost, state.Blocked, state.Cancelled, state.Interrupted,
}

// Phases returns "20 succeeded, 4 up to date", without phases that have no jobs.
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
