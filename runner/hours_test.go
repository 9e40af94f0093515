package runner

import (
	"testing"
	"time"

	"gpurun/gpu"
)

// Three jobs that share a GPU count once.
func TestSharedGPUHours(t *testing.T) {
	h := newHours()
	hours := func(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }
	one, both := []gpu.UUID{"a"}, []gpu.UUID{"a", "b"}
	h.started(one, hours(0))
	h.started(both, hours(0.5))
	h.ended(one, hours(1))
	h.started(one, hours(2.5))
	h.ended(one, hours(3))
	h.ended(both, hours(4))
	h.started(one, hours(5))
	h.started(one, hours(4.5)) // found to have been running
	h.ended(one, hours(5.5))
	h.ended(one, hours(6))
	if got := h.total.Hours(); got != 4+3.5+1.5 {
		t.Errorf("got %v hours, want 9", got)
	}
}
