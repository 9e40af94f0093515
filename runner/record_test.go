package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// A running fact is written together with the next fact, in order; a start and an end
// are written at once.
func TestFactsThatComeTogetherAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "settings: {max_concurrent: 2}\njobs:\n  - {name: 'j{i}', matrix: {i: 1..20}, run: x, gpus: 0}\n", "",
			func(engine.Launch) Play { return Play{} })
		r := w.run()
		if r.Final.Counts[state.Succeeded] != 20 || len(w.memory.facts) != 60 {
			t.Fatalf("got %v, %d facts", r.Final.Counts, len(w.memory.facts))
		}
		if w.memory.writes > 40 {
			t.Errorf("%d writes for %d facts", w.memory.writes, len(w.memory.facts))
		}
		kinds := map[string]string{}
		for _, f := range w.memory.facts {
			kinds[f.UniID] += string(f.Kind) + " "
		}
		for id, got := range kinds {
			if got != "start running end " {
				t.Errorf("%s: %s", id, got)
			}
		}
	})
}

// The process of a job that keeps running is soon in the ledger.
func TestRunningIsNotPutOffForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "jobs:\n  - {name: a, run: x, gpus: 0}\n", "", lasts(time.Hour))
		time.AfterFunc(time.Second, func() {
			if n := len(w.memory.kinds(state.KindRunning)); n != 1 {
				t.Errorf("%d running facts after a second", n)
			}
		})
		w.run()
	})
}

func lasts(d time.Duration) func(engine.Launch) Play {
	return func(engine.Launch) Play { return Play{For: d} }
}
