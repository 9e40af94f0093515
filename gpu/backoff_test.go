package gpu

import (
	"fmt"
	"testing"
	"time"
)

// After each lost race in a row, a run waits twice as long, up to a limit. Different runs wait for
// different times.
func TestRaceBackoffDoublesAndDiffers(t *testing.T) {
	pauses := map[time.Duration]int{}
	for i := range 100 {
		name := fmt.Sprint("run-", i)
		first := RaceBackoff(name, 1, time.Second)
		if pauses[first]++; first < 5*time.Millisecond || first > 50*time.Millisecond || RaceBackoff(name, 2, time.Second) != 2*first {
			t.Errorf("%s waits %v, then %v", name, first, RaceBackoff(name, 2, time.Second))
		}
		if got := RaceBackoff(name, 99, time.Second); got != time.Second {
			t.Errorf("after 99 losses, %s waits %v, want 1s", name, got)
		}
	}
	if len(pauses) < 30 {
		t.Errorf("100 runs wait for only %d different times, want at least 30", len(pauses))
	}
}
