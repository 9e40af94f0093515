package runner

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Three jobs that share a GPU count once.
func TestSharedGPUHours(t *testing.T) {
	var h hours
	on := func(ids ...gpu.UUID) state.Fact { return state.Fact{GPUUUIDs: ids} }
	end := func(at, hours float64) state.Fact {
		return state.Fact{Boot: time.Duration(at * float64(time.Hour)), Seconds: hours * 3600}
	}
	h.started(on("a"))
	h.started(on("a"))
	h.started(on("a", "b"))
	h.ended(on("a"), end(1, 1))
	h.ended(on("a"), end(3, 0.5)) // from 2.5
	if got := h.count(); got != 1.5 {
		t.Errorf("got %v hours while one is running, want 1.5", got)
	}
	h.ended(on("a", "b"), end(4, 3.5)) // from 0.5
	h.started(on("a"))
	h.ended(on("a"), end(6, 1))
	if got := h.count(); got != 4+3.5+1 {
		t.Errorf("got %v hours, want 8.5", got)
	}
}
