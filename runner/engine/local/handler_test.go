package local

import (
	"testing"

	"gpurun/runner/engine"
	"gpurun/state"
)

// A process that a job starts to save its work when it is stopped must not be stopped itself.
func TestHandlersMayRunPrograms(t *testing.T) {
	for _, keeper := range []string{"alive", "killed"} {
		t.Run(keeper, func(t *testing.T) {
			s := newScene(t, "trap 'sh -c \"sleep 0.4; echo saved\"; exit 0' TERM; echo up >up; sleep 1000 & wait")
			s.start()
			s.hear()
			if keeper == "killed" {
				s.killKeeper()
			}
			s.engine.Stop(s.launch.UniID, state.WhyInterrupted, engine.Term)
			s.ended()
			if got := s.log(); got != "saved\n" {
				t.Errorf("log = %q, want what the handler says", got)
			}
		})
	}
}
