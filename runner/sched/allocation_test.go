package sched

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// A run inside a cluster job does not start jobs that, judging by similar jobs, would outlast the cluster
// job, nor the jobs that need them. Jobs of unknown duration do start. The run ends when only jobs are
// left that it does not start.
func TestAllocationIsTooShort(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 5, nil)
	w.b.Settings.MaxConcurrent = 1
	w.job("eval", "eval", jobspec.Spec{}, "", "j4")
	w.job("queued", "queued", jobspec.Spec{Template: 7, Request: gpu.Request{Min: 1, Max: 1, Memory: gpu.GiB}}, "q")
	w.job("other", "other", jobspec.Spec{}, "q")
	w.opts.Ends, w.opts.Within = w.now.Wall.Add(150*time.Second), "slurm job 12"
	var warned []string
	w.hook = func(a Action) {
		if x, ok := a.(Warn); ok {
			warned = append(warned, x.Text)
		}
	}
	w.open()
	w.send(Began{})
	for range 2 { // the duration of the first is unknown; the second takes 1 min of the remaining 1.5
		w.takes(gpu.GiB, time.Minute, Ended{})
		w.wait(time.Second)
	}
	if p := w.core.Phase(w.id("other")); p != state.Running {
		t.Errorf("the job of unknown duration is %s", p)
	}
	const why = "not started: similar jobs take 1m, and slurm job 12 ends at "
	if x := w.core.Wait(w.now, 2); x == nil || x.Code != "allocation" || x.Text[:len(why)] != why {
		t.Errorf("the third job waits for %+v", x)
	}
	if x := w.core.Wait(w.now, w.id("eval")); x == nil || x.Text != "needs j4, which is held" {
		t.Errorf("the job that needs j4 waits for %+v", x)
	}
	w.exit("other", Ended{})
	if w.done == nil {
		t.Fatal("the run waits for jobs that it does not start")
	}
	if len(warned) != 1 || !slices.Contains([]string{"j2 was " + why}, warned[0][:len(why)+7]) || !strings.HasSuffix(warned[0], "; the same applies to 3 other jobs") {
		t.Errorf("got warnings %q", warned)
	}
	if s := w.core.Snapshot(w.now); s.Counts[state.Pending] != 5 || s.Counts[state.Succeeded] != 3 || !strings.HasPrefix(schema.Value(s.Live.Draining), "slurm job 12 ends at ") {
		t.Errorf("got counts %v, and the run ended because %q", s.Counts, schema.Value(s.Live.Draining))
	}
	// With more time, the next run starts them.
	w.opts.Ends = w.now.Wall.Add(time.Hour)
	w.open()
	w.send(Began{})
	for range 6 {
		w.takes(gpu.GiB, time.Second, Ended{})
		w.wait(time.Second)
	}
	if s := w.core.Snapshot(w.now); s.Counts[state.Succeeded] != 5 || w.done == nil {
		t.Errorf("with more time: got counts %v", s.Counts)
	}
}

// A job with when: always waits for the jobs it needs. If those are left for the next run, it must be
// left as well.
func TestAllocationLeavesWhenAlwaysJobs(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 3, nil)
	w.b.Settings.MaxConcurrent = 1
	w.job("clean", "clean", jobspec.Spec{When: jobspec.Always}, "", "j2")
	w.job("mail", "mail", jobspec.Spec{}, "", "clean")
	w.opts.Ends, w.opts.Within = w.now.Wall.Add(90*time.Second), "slurm job 12"
	w.open()
	w.send(Began{})
	w.takes(gpu.GiB, time.Minute, Ended{})
	if w.done == nil {
		t.Fatal("the run waits for jobs that it does not start")
	}
	if s := w.core.Snapshot(w.now); s.Counts[state.Pending] != 4 || s.Counts[state.Succeeded] != 1 {
		t.Errorf("got counts %v", s.Counts)
	}
	if x := w.core.Wait(w.now, w.id("clean")); x == nil || x.Text != "needs j2, which is held" {
		t.Errorf("the job with when: always waits for %+v", x)
	}
	w.opts.Ends = time.Time{}
	w.open()
	w.send(Began{})
	for range 2 {
		w.takes(gpu.GiB, time.Second, Ended{})
	}
	w.exit("clean", Ended{})
	w.exit("mail", Ended{})
	if s := w.core.Snapshot(w.now); s.Counts[state.Succeeded] != 4 || w.done == nil {
		t.Errorf("with more time: got counts %v", s.Counts)
	}
}
