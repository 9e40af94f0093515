package runner

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// Usage is also saved during a run, so a killed run loses little of it.
func TestUsageIsSavedDuringRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 2}]\n", "2x24GiB", func(engine.Launch) Play { return Play{For: time.Hour} })
		var mu sync.Mutex
		var kept []gpu.Spent
		w.Spent = func(s gpu.Spent) {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, s)
		}
		w.run()
		if len(kept) < 50 || len(kept) > 62 {
			t.Fatalf("usage was saved %d times in an hour, want 50 to 62", len(kept))
		}
		for i, s := range kept[1:] {
			if before := kept[i]; s.Own < before.Own || s.Passed < before.Passed {
				t.Errorf("saved %+v after %+v: usage must not shrink", s, before)
			}
		}
		half, all := kept[len(kept)/2].Own, kept[len(kept)-1].Own
		if half < 3000 || half > 4000 || all < 7199 || all > 7210 {
			t.Errorf("got %v GPU seconds at half time and %v at the end, want 3600 and 7200", half, all)
		}
	})
}
