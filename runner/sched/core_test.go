package sched

import (
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

func TestPlainJobsWithNeeds(t *testing.T) {
	w := newWorld(t)
	w.log = func(s string) { t.Log(s) }
	w.gpus(2, 24*gpu.GiB)
	one := jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}}
	w.job("a", "true", one, "")
	w.job("b", "true", one, "")
	w.job("c", "true", one, "")
	w.job("sum", "true", jobspec.Spec{CPUs: 1}, "", "a", "b", "c")
	w.open()
	w.send(Began{})
	w.exit("a", Ended{})
	w.exit("b", Ended{})
	w.exit("c", Ended{})
	w.exit("sum", Ended{})
	if w.done == nil || w.core.Snapshot(w.now).Counts[state.Succeeded] != 4 {
		t.Fatalf("got %+v", w.core.Snapshot(w.now))
	}
	w.open()
	w.send(Began{})
	if w.done == nil || w.core.Snapshot(w.now).Counts[state.UpToDate] != 4 {
		t.Fatalf("got %+v", w.core.Snapshot(w.now))
	}
}
