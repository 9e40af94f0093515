package runner

import (
	"testing"
	"time"
)

// A reading of GPUs that is slower than one of claims alone does not bring back what other runs
// claimed before.
func TestStaleClaims(t *testing.T) {
	var r readings
	began := time.Now()
	for i, step := range []struct {
		after time.Duration // when a reading began, in the order in which they end
		stale bool
	}{{time.Second, false}, {3 * time.Second, false}, {2 * time.Second, true}, {3 * time.Second, false}, {4 * time.Second, false}} {
		if got := r.stale(began.Add(step.after)); got != step.stale {
			t.Errorf("reading %d: stale is %v", i, got)
		}
	}
}
