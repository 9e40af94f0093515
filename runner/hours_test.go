package runner

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Three jobs that share a GPU count once.
func TestSharedGPUHours(t *testing.T) {
	h := hours{on: map[gpu.UUID]*occupied{}}
	on := func(ids ...gpu.UUID) state.Fact { return state.Fact{GPUUUIDs: ids} }
	ended := func(start state.Fact, at, hours float64) {
		h.ended(start, state.Fact{Seconds: hours * 3600}, time.Duration(at*float64(time.Hour)))
	}
	h.started(on("a"))
	h.started(on("a"))
	h.started(on("a", "b"))
	ended(on("a"), 1, 1)
	ended(on("a"), 3, 0.5) // from 2.5
	if got := h.count(); got != 1.5 {
		t.Errorf("got %v hours while one is running, want 1.5", got)
	}
	ended(on("a", "b"), 4, 3.5) // from 0.5
	h.started(on("a"))
	ended(on("a"), 6, 1)
	if got := h.count(); got != 4+3.5+1 {
		t.Errorf("got %v hours, want 8.5", got)
	}
}
