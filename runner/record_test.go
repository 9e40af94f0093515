package runner

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

func TestFactsOfOneStepAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: 'j{i}', matrix: {i: 1..20}, run: x, gpus: 1}]\n", "", exits(nil)) // they fail: there are no GPUs
		r := w.run()
		if r.Final.Counts[state.Failed] != 20 || len(w.memory.facts) != 20 {
			t.Fatalf("got %v, %d facts", r.Final.Counts, len(w.memory.facts))
		}
		if w.memory.writes != 1 {
			t.Errorf("got %d writes for %d facts, want 1", w.memory.writes, len(w.memory.facts))
		}
		for i, f := range w.memory.facts {
			if want := fmt.Sprint("j", i+1); f.Job != want {
				t.Errorf("fact %d is about %s, want %s", i, f.Job, want)
			}
		}
	})
}

func TestFactsOfAttemptAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 2}\njobs:\n  - {name: 'j{i}', matrix: {i: 1..20}, run: x, gpus: 0}\n", "",
			func(engine.Launch) Play { return Play{} })
		r := w.run()
		if r.Final.Counts[state.Succeeded] != 20 || len(w.memory.facts) != 60 {
			t.Fatalf("got %v, %d facts", r.Final.Counts, len(w.memory.facts))
		}
		kinds := map[string]string{}
		for _, f := range w.memory.facts {
			kinds[f.UniID] += string(f.Kind) + " "
		}
		for id, got := range kinds {
			if got != "start running end " {
				t.Errorf("%s: got facts %q", id, got)
			}
		}
	})
}

func TestRunningIsRecordedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs:\n  - {name: a, run: x, gpus: 0}\n", "", lasts(time.Hour))
		time.AfterFunc(time.Second, func() {
			if n := len(w.memory.kinds(state.KindRunning)); n != 1 {
				t.Errorf("got %d running facts after a second, want 1", n)
			}
		})
		w.run()
	})
}

// An end includes the process, so a running fact just before it would be redundant.
func TestImmediateEndNeedsNoRunningFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs:\n  - {name: a, run: x, gpus: 0}\n", "", func(engine.Launch) Play { return Play{AtOnce: true} })
		if r := w.run(); r.Final.Counts[state.Succeeded] != 1 {
			t.Fatalf("got %v", r.Final.Counts)
		}
		if n := len(w.memory.kinds(state.KindRunning)); n != 0 {
			t.Errorf("got %d running facts, want none", n)
		}
		if ends := w.memory.kinds(state.KindEnd); len(ends) != 1 || ends[0].PID == 0 {
			t.Errorf("got %+v, want one end with its PID", ends)
		}
	})
}

func lasts(d time.Duration) func(engine.Launch) Play {
	return func(engine.Launch) Play { return Play{For: d} }
}
