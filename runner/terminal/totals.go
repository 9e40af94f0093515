package terminal

import (
	"fmt"
	"strings"
	"time"

	"gpurun/state"
)

// Totals are a batch in five numbers.
type Totals struct {
	Total   int // selected jobs
	Done    int // succeeded now, or up to date
	Failed  int // every other end, blocked ones included
	Running int
	Left    int // running ones included
}

// Count folds the phases of a snapshot.
func Count(s state.Snapshot) Totals {
	t := Totals{Total: s.Total}
	for phase, n := range s.Counts {
		switch {
		case phase == state.Succeeded || phase == state.UpToDate:
			t.Done += n
		case phase.Ended():
			t.Failed += n
		default:
			t.Left += n
			if phase == state.Running {
				t.Running += n
			}
		}
	}
	return t
}

// String is "12/24 done, 1 failed, 4 running, 7 waiting".
func (t Totals) String() string {
	s := fmt.Sprintf("%d/%d done", t.Done, t.Total)
	if t.Failed > 0 {
		s += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.Running > 0 {
		s += fmt.Sprintf(", %d running", t.Running)
	}
	if n := t.Left - t.Running; n > 0 {
		s += fmt.Sprintf(", %d waiting", n)
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
