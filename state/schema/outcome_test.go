package schema

import (
	"testing"
	"time"
)

func TestOutcome(t *testing.T) {
	exit := func(code int) *Run { return &Run{Started: Known(time.Unix(1, 0)), Exit: &code} }
	alive := func(p RunPhase) *Run { return &Run{Alive: true, Phase: Known(p)} }
	done, failed := map[State]int{Succeeded: 1, UpToDate: 1, NotNeeded: 1}, map[State]int{Succeeded: 7, Blocked: 1, Lost: 1}
	left := map[State]int{Succeeded: 7, Cancelled: 1, Pending: 1}
	for _, c := range []struct {
		run    *Run
		counts map[State]int
		code   OutcomeCode
		text   string
	}{
		{nil, map[State]int{Pending: 2}, OutcomeNone, "never ran"},
		{exit(0), failed, OutcomeFailed, "failed"},
		{exit(143), failed, OutcomeFailed, "failed"},
		{&Run{}, failed, OutcomeFailed, "failed"},
		{exit(1), done, OutcomeDone, "done"},
		{&Run{}, done, OutcomeDone, "done"},
		{&Run{}, left, OutcomeKilled, "killed"},
		{exit(130), left, OutcomeStopped, "stopped"},
		{exit(0), left, OutcomeUnfinished, "unfinished"},
		{alive(RunRunning), left, OutcomeCode(RunRunning), "running"},
		{alive(RunRunning), failed, OutcomeCode(RunRunning), "running, 2 failed"},
		{alive(RunPaused), failed, OutcomeCode(RunPaused), "paused, 2 failed"},
		{alive(""), failed, OutcomeSilent, "does not answer, 2 failed"},
	} {
		if o := OutcomeOf(c.run, c.counts); o.Code != c.code || o.Text != c.text {
			t.Errorf("%+v with %v: %+v, want %s, %q", c.run, c.counts, o, c.code, c.text)
		}
	}
	for s, bad := range map[State]bool{Failed: true, Timeout: true, OOM: true, Stalled: true, Lost: true, Blocked: true, Cancelled: false, Interrupted: false} {
		if o := OutcomeOf(exit(0), map[State]int{Succeeded: 1, s: 1}); (o.Code == OutcomeFailed) != bad {
			t.Errorf("a job that is %s makes the batch %s", s, o.Code)
		}
	}
}
