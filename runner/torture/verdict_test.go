package torture

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"gpurun/state"
)

// excuses are the events of a lane that may lose attempts. Nothing else may.
type excuses struct {
	keepers []float64 // times when keepers were killed
	traced  []float64 // times when a keeper's process was killed in a system call
	stills  *stills
}

// lost reports whether a keeper of the lane was killed during the attempt.
func (x excuses) lost(a *attempt) bool { return during(a, x.keepers) }

func (x excuses) struck(a *attempt) bool { return during(a, x.traced) }

// bare returns when the first keeper was killed that could have held the claim of an attempt with
// unknown status; 0 for none. From then on, only the GPU's own process list protects the attempt,
// which simulated GPUs do not have.
func (x excuses) bare(a *attempt) float64 {
	if a.start == nil || a.end == nil || a.end.ExitCode != nil || a.end.Signal != "" {
		return 0
	}
	for _, at := range x.keepers {
		if at >= seconds(a.start.Time)-0.01 {
			return at
		}
	}
	return 0
}

func during(a *attempt, times []float64) bool {
	const late = 5 // the reaction to a kill may be delayed
	for _, at := range times {
		if at >= seconds(a.start.Time)-0.01 && (a.end == nil || at <= seconds(a.end.Time)+late) {
			return true
		}
	}
	return false
}

// judge checks a finished batch against the journal of its jobs.
func judge(t testing.TB, jobs []job, l ledger, all map[string]*attempt, x excuses) {
	t.Helper()
	for _, id := range l.order {
		a := all[id]
		if a.start == nil || a.end == nil {
			t.Errorf("%s: the ledger has %s", id, map[bool]string{true: "no start", false: "no end"}[a.start == nil])
			continue
		}
		if why := agrees(a, x); why != "" {
			t.Errorf("%s (%s): %s; the ledger has state %s, %s; journal start %v, end %v",
				id, a.start.Job, why, a.end.State, a.end.Reason, a.begun, a.ended)
		}
	}
	for _, j := range jobs {
		if why := endedWellOnce(j.Name, l, all); why != "" {
			t.Errorf("%s: %s", j.Name, why)
		}
	}
	beside(t, l, all)
}

// agrees returns how ledger and journal differ for one attempt, or "".
func agrees(a *attempt, x excuses) string {
	stopped, lost := a.stop != nil, a.end.State == state.Lost
	if stopped && a.end.State != state.Interrupted && a.end.Time.Before(a.stop.Time) {
		stopped = false // it had ended on its own, and received no signal
	}
	switch {
	case a.begun == nil && a.end.State == state.Succeeded:
		return "it succeeded without having run"
	case a.begun == nil && (lost || stopped || a.end.State == state.Interrupted || x.struck(a)):
		return ""
	case a.begun == nil:
		return "it never ran"
	case lost && !x.lost(a):
		return "it is lost, but no keeper was killed"
	case lost:
		return ""
	case stopped && a.end.State != state.Interrupted:
		return "it was stopped, but is not interrupted"
	case stopped:
		return ""
	case a.ended == nil && !x.struck(a):
		return "it ran but never ended"
	case a.ended == nil:
		return ""
	}
	if why := sameStatus(a); why != "" && !x.struck(a) {
		return why
	}
	return sameTimes(a, x.stills)
}

// sameStatus compares how the attempt ended.
func sameStatus(a *attempt) string {
	want := state.Failed
	if a.ended.code == "0" {
		want = state.Succeeded
	}
	code, signal := -1, ""
	if a.ended.code == "k" {
		signal = "SIGKILL"
	} else {
		code, _ = strconv.Atoi(a.ended.code)
	}
	got := -1
	if a.end.ExitCode != nil {
		got = *a.end.ExitCode
	}
	if signal != "" && a.end.State == state.OOM && oomKills() > oomKillsBefore {
		want = state.OOM // another process on this host ran out of memory at that time
	}
	if a.end.State != want || got != code && signal == "" || a.end.Signal != signal {
		return fmt.Sprintf("the journal has status %s, the ledger has exit status %d and signal %q", a.ended.code, got, a.end.Signal)
	}
	return ""
}

// oomKills returns how many processes the kernel has killed for lack of memory.
func oomKills() (n int) {
	text, _ := os.ReadFile("/proc/vmstat")
	if _, after, found := strings.Cut(string(text), "\noom_kill "); found {
		_, _ = fmt.Sscan(after, &n)
	}
	return n
}

var oomKillsBefore = oomKills()

// slack is how late, in seconds, a busy machine may notice events.
const slack = 8

// sameTimes compares when the attempt ran. The job itself writes the journal, slightly after its
// start and slightly before its end.
func sameTimes(a *attempt, s *stills) string {
	ran, slack := a.to()-a.from(), slack+s.between(a.from(), seconds(a.end.Time))
	switch {
	case seconds(a.start.Time) > a.from()+0.01:
		return "it ran before its start was recorded"
	case a.end.Seconds < ran-0.05 || a.end.Seconds > ran+slack+s.between(seconds(a.start.Time), a.from()):
		return fmt.Sprintf("it ran for %.2f s, but the ledger has %.2f", ran, a.end.Seconds)
	case seconds(a.end.Time) < a.to()-0.01 || seconds(a.end.Time) > a.to()+slack:
		return fmt.Sprintf("it ended at %.2f, but the ledger has %.2f", a.to(), seconds(a.end.Time))
	}
	return ""
}

// endedWellOnce checks that a job succeeded once, in its last attempt.
func endedWellOnce(name string, l ledger, all map[string]*attempt) string {
	good, last := 0, ""
	for _, id := range l.order {
		a := all[id]
		if a.start == nil || a.start.Job != name || a.end == nil {
			continue
		}
		if a.end.State == state.Succeeded {
			good++
		}
		last = string(a.end.State)
	}
	if good != 1 || last != string(state.Succeeded) {
		return fmt.Sprintf("it succeeded %d times, and its last state is %q", good, last)
	}
	return ""
}

// beside checks that no job ran twice at the same time.
func beside(t testing.TB, l ledger, all map[string]*attempt) {
	t.Helper()
	last := map[string]*attempt{}
	for _, a := range byTime(all) {
		name := a.begun.job
		if b := last[name]; b != nil && a.from() < b.to() {
			t.Errorf("%s ran twice at the same time, as %s and as %s", name, a.begun.uniID, b.begun.uniID)
		}
		last[name] = a
	}
}

func byTime(all map[string]*attempt) []*attempt {
	var s []*attempt
	for _, a := range all {
		if a.begun != nil {
			s = append(s, a)
		}
	}
	sort.Slice(s, func(i, k int) bool { return s[i].from() < s[k].from() })
	return s
}

// uncovered reports whether a's claim was lost with its keeper when b began.
func (a *attempt) uncovered(b *attempt) bool { return a.bare > 0 && a.bare <= b.from() }

// holds checks that no GPU was ever held twice, and that no more memory was granted than exists.
func holds(t testing.TB, attempts []*attempt, total float64) (most int) {
	t.Helper()
	on := map[string][]*attempt{}
	for _, a := range attempts {
		for _, g := range a.begun.gpus {
			var still []*attempt
			memory := a.begun.memory
			for _, b := range on[g] {
				if b.to() <= a.from() || b.begun.lane != a.begun.lane && (b.uncovered(a) || a.uncovered(b)) {
					continue
				}
				still = append(still, b)
				memory += b.begun.memory
				if a.begun.kind != "share" || b.begun.kind != "share" {
					t.Errorf("GPU %s held twice: by %s %s of %s and by %s %s of %s", g,
						b.begun.job, b.begun.uniID, b.begun.lane, a.begun.job, a.begun.uniID, a.begun.lane)
				}
			}
			if memory > total {
				t.Errorf("GPU %s: %v of %v GiB granted when %s of %s started", g, memory, total, a.begun.job, a.begun.lane)
			}
			on[g] = append(still, a)
			most = max(most, len(on[g]))
		}
	}
	return most
}
