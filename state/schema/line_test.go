package schema

import (
	"testing"
	"time"

	"gpurun/state"
)

func TestStateLineOfEachSituation(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	at := func(minutes int) *time.Time { return Time(noon.Add(time.Duration(minutes) * time.Minute)) }
	counts := map[state.Phase]int{state.Succeeded: 30, state.UpToDate: 8, state.Failed: 9, state.OOM: 1, state.Running: 6, state.Pending: 4, state.Waiting: 1, state.Blocked: 1}
	live := func(phase RunPhase, l *Live) *Status {
		return &Status{Head: Head{Now: noon}, Run: &Run{Alive: true, Phase: &phase}, Counts: counts, Live: l}
	}
	ended := &Status{Run: &Run{Started: at(0), Ended: at(7), Exit: Known(1), GPUSeconds: Known(2628.0)}, Counts: counts, Alike: make([]Alike, 3)}
	over := map[state.Phase]int{state.Succeeded: 29, state.Pruned: 1, state.UpToDate: 10, state.NotNeeded: 1, state.Cancelled: 1}
	for _, tt := range []struct {
		st   *Status
		want string
	}{
		{
			live(RunRunning, &Live{Stalled: []string{"hung"}, Bottleneck: Known("this batch uses all 7 usable GPUs"), End: &End{From: at(51), To: at(56), Without: []string{"hung"}}}),
			"running: 38 of 60 done, 10 failed, 6 running (1 stalled), 5 waiting, 1 did not run · this batch uses all 7 usable GPUs · done 12:51–12:56 (excluding hung)",
		},
		{
			live(RunRunning, &Live{End: &End{Unknown: Known("no similar job has ended")}}),
			"running: 38 of 60 done, 10 failed, 6 running, 5 waiting, 1 did not run · end unknown: no similar job has ended",
		},
		{live(RunPaused, &Live{Bottleneck: Known("nothing starts")}), "paused: 38 of 60 done, 10 failed, 6 running, 5 waiting, 1 did not run · nothing starts"},
		{
			live(RunDraining, &Live{End: &End{From: at(24 * 60), To: at(24 * 60)}}),
			"draining: 38 of 60 done, 10 failed, 6 running, 5 will not start, 1 did not run · ends about 2 Mar 12:00",
		},
		{&Status{Run: &Run{Alive: true}, Counts: counts}, "does not answer: 38 of 60 done, 10 failed, 6 running, 5 waiting, 1 did not run"},
		{ended, "failed: 38 of 60 done, 10 failed (3 causes), 6 running, 6 did not run · 7 min, 0.73 GPU hours"},
		{&Status{Run: &Run{Started: at(0), Ended: at(125), Exit: new(int)}, Counts: over}, "unfinished: 41 of 42 done (1 pruned), 1 did not run · 2 h 5 min"},
		{&Status{Counts: map[state.Phase]int{state.Pending: 3}}, "never ran: 0 of 3 done, 3 did not run"},
	} {
		if tt.st.Sum(); tt.st.Line != tt.want {
			t.Errorf("got  %q\nwant %q", tt.st.Line, tt.want)
		}
	}
}
