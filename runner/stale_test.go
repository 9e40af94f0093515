package runner

import (
	"testing"
	"time"
)

// A slow reading must not replace the claims of a quick one that started later.
func TestStaleClaimsAreIgnored(t *testing.T) {
	var r readings
	began := time.Now()
	for i, step := range []struct {
		after time.Duration // when the reading began; the readings are sorted by their ends
		stale bool
	}{{time.Second, false}, {3 * time.Second, false}, {2 * time.Second, true}, {3 * time.Second, false}, {4 * time.Second, false}} {
		if got := r.stale(began.Add(step.after)); got != step.stale {
			t.Errorf("reading %d: got stale %v, want %v", i, got, step.stale)
		}
	}
}
