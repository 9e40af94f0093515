package runner

import (
	"testing"
	"time"
)

// A slow reading of GPUs must not replace claims from a faster reading of claims that started
// later.
func TestStaleClaimsAreIgnored(t *testing.T) {
	var r readings
	began := time.Now()
	for i, step := range []struct {
		after time.Duration // start of each reading, in the order of their ends
		stale bool
	}{{time.Second, false}, {3 * time.Second, false}, {2 * time.Second, true}, {3 * time.Second, false}, {4 * time.Second, false}} {
		if got := r.stale(began.Add(step.after)); got != step.stale {
			t.Errorf("reading %d: stale is %v", i, got)
		}
	}
}
