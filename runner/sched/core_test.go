package sched

import (
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

func TestJobsWaitForTheirNeeds(t *testing.T) {
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
		t.Fatalf("got %+v, want 4 jobs succeeded", w.core.Snapshot(w.now))
	}
	w.open()
	w.send(Began{})
	if w.done == nil || w.core.Snapshot(w.now).Counts[state.UpToDate] != 4 {
		t.Fatalf("in the next run: got %+v, want 4 jobs up to date", w.core.Snapshot(w.now))
	}
}

// On a host without GPUs, jobs that need GPUs fail, unless the engine provides GPUs elsewhere.
func TestGPUJobsFailWithoutGPUs(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		w := newWorld(t)
		w.opts.Elsewhere = elsewhere
		w.job("a", "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB}}, "")
		w.open()
		w.send(Began{})
		want := state.Failed
		if elsewhere {
			w.exit("a", Ended{})
			want = state.Succeeded
		}
		if w.done == nil || w.core.Snapshot(w.now).Counts[want] != 1 {
			t.Errorf("elsewhere %v: got %+v, want the job %s", elsewhere, w.core.Snapshot(w.now).Counts, want)
		}
	}
}

// When the first job of a chain of 100,000 fails, one Step must block all others.
func TestLongChainIsBlockedInOneStep(t *testing.T) {
	w := newWorld(t)
	const n = 100_000
	spec := &jobspec.Spec{When: jobspec.OnSuccess}
	w.b.Jobs = make([]jobspec.Job, n)
	for i := range w.b.Jobs {
		w.b.Jobs[i] = jobspec.Job{ID: i, Name: "j", Key: keyOf("j", string(rune(i))), Spec: spec, Queue: -1}
		if i < n-1 { // the reverse order of the file
			w.b.Jobs[i].Needs = []int32{int32(i + 1)}
		}
	}
	w.open()
	if got := w.core.Verdict(0).Reason; got != "never ran" {
		t.Errorf("got %q, want never ran", got)
	}
	w.send(Began{})
	w.send(Ended{UniID: "j.1", End: state.End{ExitCode: 1}})
	if got := w.core.Snapshot(w.now).Counts[state.Blocked]; got != n-1 || w.done == nil {
		t.Errorf("got %d blocked, want %d; finished: %v", got, n-1, w.done != nil)
	}
}

// Each file has its own ledger, so an identical job in another file must not count.
func TestIdenticalJobsOfTwoFilesAreSeparate(t *testing.T) {
	w := newWorld(t)
	w.b.Files = append(w.b.Files, jobspec.File{Path: "other.yaml"})
	w.job("a", "true", jobspec.Spec{}, "")
	w.job("b", "true", jobspec.Spec{}, "").File = 1
	w.b.Jobs[1].Key = w.b.Jobs[0].Key
	w.open()
	w.send(Began{})
	w.exit("a", Ended{})
	w.exit("b", Ended{End: state.End{ExitCode: 1}})
	w.open()
	if got := w.core.Verdict(0).Reason; got != "up to date" {
		t.Errorf("got %q for a, want up to date", got)
	}
	if got := w.core.Verdict(1).Reason; got != "failed (exit 1)" {
		t.Errorf("got %q for b, want failed (exit 1)", got)
	}
}
