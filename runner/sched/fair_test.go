package sched

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// A run that loses the race for a GPU has not had its turn, so it must keep its place in line, even if
// no other job of it waits meanwhile.
func TestLostRaceKeepsPlaceInLine(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		w := newWorld(t)
		w.manual["prepare"] = true
		w.gpus(1, 24*gpu.GiB)
		w.claims = []gpu.Claim{{UUID: uuid(0), UID: 1001, User: "alice", Job: "theirs", Run: "alice"}}
		w.wishes = []gpu.Wish{}
		for _, name := range names {
			w.job(name, "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}}, "")
		}
		since := time.Time{}
		w.hook = func(a Action) {
			if a, ok := a.(Wish); ok {
				since = a.Since
			}
		}
		w.open()
		w.send(Began{})
		began := w.now.Wall
		w.wait(10 * time.Second)
		w.claims = []gpu.Claim{}
		w.wait(10 * time.Second)
		w.claims = []gpu.Claim{{UUID: uuid(0), UID: 1001, User: "alice", Job: "theirs", Run: "alice"}}
		w.send(PrepareFailed{Job: 0, Reason: "a rival", Rival: true})
		w.wait(10 * time.Second)
		if !since.Equal(began) {
			t.Errorf("%v: after a lost race, the run waits since %v, want %v", names, since, began)
		}
		w.claims = []gpu.Claim{}
		w.wait(10 * time.Second)
		w.send(w.prepared(Prepare{Attempt: 1}))
		w.wait(2 * time.Second)
		if len(names) > 1 && !since.Equal(w.now.Wall.Add(-2*time.Second)) {
			t.Errorf("after it got a GPU, the run waits since %v, want %v", since, w.now.Wall.Add(-2*time.Second))
		}
	}
}
