package schema

import (
	"gpurun/state"
	"testing"
	"time"
)

func TestOutcomeFollowsFromCounts(t *testing.T) {
	exit := func(code int) *Run { return &Run{Started: Known(time.Unix(1, 0)), Exit: &code} }
	alive := func(p RunPhase) *Run { return &Run{Alive: true, Phase: Known(p)} }
	done, failed := map[state.Phase]int{state.Succeeded: 1, state.UpToDate: 1, state.NotNeeded: 1}, map[state.Phase]int{state.Succeeded: 7, state.Blocked: 1, state.Lost: 1}
	left := map[state.Phase]int{state.Succeeded: 7, state.Cancelled: 1, state.Pending: 1}
	for _, c := range []struct {
		run    *Run
		counts map[state.Phase]int
		code   OutcomeCode
		text   string
	}{
		{nil, map[state.Phase]int{state.Pending: 2}, OutcomeNone, "never ran"},
		{exit(0), failed, OutcomeFailed, "failed"},
		{exit(143), failed, OutcomeFailed, "failed"},
		{&Run{}, failed, OutcomeFailed, "failed"},
		{exit(1), done, OutcomeDone, "done"},
		{&Run{}, done, OutcomeDone, "done"},
		{&Run{}, left, OutcomeKilled, "killed"},
		{exit(130), left, OutcomeStopped, "stopped"},
		{exit(0), left, OutcomeUnfinished, "unfinished"},
		{alive(RunRunning), left, OutcomeCode(RunRunning), "running"},
		{alive(RunRunning), failed, OutcomeCode(RunRunning), "running, 1 failed"},
		{alive(RunPaused), failed, OutcomeCode(RunPaused), "paused, 1 failed"},
		{alive(""), failed, OutcomeSilent, "does not answer, 1 failed"},
	} {
		if o := OutcomeOf(c.run, c.counts); o.Code != c.code || o.Text != c.text {
			t.Errorf("%+v with %v: %+v, want %s, %q", c.run, c.counts, o, c.code, c.text)
		}
	}
	for s, bad := range map[state.Phase]bool{state.Failed: true, state.Timeout: true, state.OOM: true, state.Stalled: true, state.Lost: true, state.Blocked: true, state.Cancelled: false, state.Interrupted: false} {
		if o := OutcomeOf(exit(0), map[state.Phase]int{state.Succeeded: 1, s: 1}); (o.Code == OutcomeFailed) != bad {
			t.Errorf("a job in state %s makes the batch %s, want failed: %v", s, o.Code, bad)
		}
	}
}
