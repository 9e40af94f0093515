package runner

import (
	"testing"
	"time"
)

// A slow GPU reading must not replace the claims of a quick reading that started later.
func TestStaleClaimsAreIgnored(t *testing.T) {
	var r readings
	began := time.Now()
	for i, step := range []struct {
		after time.Duration // when a reading began; readings are in the order in which they ended
		stale bool
	}{{time.Second, false}, {3 * time.Second, false}, {2 * time.Second, true}, {3 * time.Second, false}, {4 * time.Second, false}} {
		if got := r.stale(began.Add(step.after)); got != step.stale {
			t.Errorf("reading %d: stale is %v", i, got)
		}
	}
}
