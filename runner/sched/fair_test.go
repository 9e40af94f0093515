package sched

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// A run that loses the race for a GPU has not had its turn, so it must keep its place in line.
func TestLostRaceKeepsPlaceInLine(t *testing.T) {
	w := newWorld(t)
	w.manual["prepare"] = true
	w.gpus(1, 24*gpu.GiB)
	w.claims = []gpu.Claim{{UUID: uuid(0), UID: 1001, User: "alice", Job: "theirs", Run: "alice"}}
	w.wishes = []gpu.Wish{}
	one := jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}}
	w.job("a", "true", one, "")
	w.job("b", "true", one, "")
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
	w.send(PrepareFailed{Job: 0, Reason: "a rival", Rival: true})
	w.wait(10 * time.Second)
	if !since.Equal(began) {
		t.Errorf("after a lost race, the run waits since %v, want %v", since, began)
	}
	w.send(w.prepared(Prepare{Attempt: 1}))
	w.wait(2 * time.Second)
	if !since.Equal(w.now.Wall.Add(-2 * time.Second)) {
		t.Errorf("after it got a GPU, the run waits since %v, want %v", since, w.now.Wall.Add(-2*time.Second))
	}
}
