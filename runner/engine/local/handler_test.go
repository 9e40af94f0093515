package local

import (
	"testing"

	"gpurun/runner/engine"
	"gpurun/state"
)

// When a job is stopped, a program that its signal handler starts must not be stopped.
func TestHandlersCanRunPrograms(t *testing.T) {
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
				t.Errorf("log = %q, want the output of the handler's program", got)
			}
		})
	}
}
