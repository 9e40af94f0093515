package local

import (
	"testing"
)

// What a job leaves behind is ended although its keeper is gone: it would hold
// its GPUs for ever.
func TestLeftOverWithoutKeeper(t *testing.T) {
	for _, runner := range []string{"alive", "new"} {
		t.Run(runner, func(t *testing.T) {
			s := newScene(t, "setsid sleep 1000 & read x <fifo")
			s.start()
			if runner == "new" {
				s.engine.Close()
			}
			s.killKeeper()
			if runner == "new" {
				s.open()
				s.adopt()
			}
			s.goOn()
			got := s.ended()
			if !got.Lost || got.LeftOver != 1 {
				t.Errorf("got %+v, want it lost, with 1 process left over", got)
			}
		})
	}
}
