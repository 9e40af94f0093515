package state

import "testing"

func TestCauseCodeOfOlderLedgers(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, tt := range []struct {
		end  Fact
		want CauseCode
	}{
		{Fact{State: Succeeded}, ""},
		{Fact{State: Failed, ErrorType: ErrExit, ExitCode: code(1)}, CauseExit},
		{Fact{State: Failed, ErrorType: ErrExit, ExitCode: code(127)}, CauseNotFound},
		{Fact{State: Failed, ErrorType: ErrSignal, Signal: "SIGSEGV"}, CauseSignal},
		{Fact{State: Failed, ErrorType: ErrStray, Why: WhyStray}, CauseStrayGPU},
		{Fact{State: Failed, ErrorType: ErrLeftRunning}, CauseLeftRunning},
		{Fact{State: OOM, ErrorType: ErrOOM}, CauseOOMGPU},
		{Fact{State: OOM, ErrorType: ErrOOM, Cause: CauseOOMNeighbour}, CauseOOMNeighbour},
		{Fact{State: Timeout, ErrorType: ErrTimeout, Why: WhyTimeout}, CauseTimeout},
		{Fact{State: Lost, ErrorType: ErrLost}, CauseLost},
		{Fact{State: Cancelled}, CauseCancelled},
		{Fact{State: Interrupted, Why: WhyInterrupted}, CauseInterrupted},
		{Fact{State: Interrupted, Why: WhyFailFast}, CauseFailFast},
		{Fact{State: Interrupted, Why: WhyGPU}, CauseGPUTaken},
		{Fact{State: Interrupted, Why: WhyPreempted}, CausePreempted},
		{Fact{State: Interrupted, Why: WhyResize}, CauseResized},
		{Fact{State: Interrupted}, CauseInterrupted},
	} {
		tt.end.Kind = KindEnd
		if got := tt.end.CauseCode(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.end, got, tt.want)
		}
	}
}
