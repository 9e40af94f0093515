package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

func TestMemoryReservedByDefault(t *testing.T) {
	group := &state.SeedGroup{Peaks: []gpu.Bytes{9 * gpu.GiB, 9 * gpu.GiB, 9 * gpu.GiB}, Seconds: []float32{60, 60, 60}}
	ask := func(memory gpu.Bytes) gpu.Request { return gpu.Request{Min: 1, Max: 1, Memory: memory} }
	for name, row := range map[string]struct {
		spec  jobspec.Spec
		group *state.SeedGroup
		most  gpu.Bytes
		want  gpu.Bytes
	}{
		"peak of similar jobs, and some more": {jobspec.Spec{DefaultMemory: true, Request: ask(gpu.GiB)}, group, 0, 10 * gpu.GiB},
		"at most what a GPU has":              {jobspec.Spec{DefaultMemory: true, Request: ask(gpu.GiB)}, group, 8 * gpu.GiB, 8 * gpu.GiB},
		"no similar jobs":                     {jobspec.Spec{DefaultMemory: true, Request: ask(gpu.GiB)}, nil, 0, 0},
		"set by the job":                      {jobspec.Spec{Request: ask(gpu.GiB)}, group, 0, 0},
		"a smaller min_memory":                {jobspec.Spec{LeastMemory: true, Request: ask(gpu.GiB)}, group, 0, 10 * gpu.GiB},
		"a larger min_memory":                 {jobspec.Spec{LeastMemory: true, Request: ask(20 * gpu.GiB)}, group, 0, 0},
		"no GPU":                              {jobspec.Spec{DefaultMemory: true}, group, 0, 0},
		"too few similar jobs":                {jobspec.Spec{DefaultMemory: true, Request: ask(gpu.GiB)}, &state.SeedGroup{Peaks: group.Peaks[:1]}, 0, 0},
	} {
		if got, _ := setAside(&row.spec, row.group, func() gpu.Bytes { return row.most }); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
}

// learning returns a world with one GPU and n jobs of one seed group that do not specify their
// memory.
func learning(t *testing.T, total gpu.Bytes, n int, change func(i int, s *jobspec.Spec)) *world {
	w := newWorld(t)
	w.gpus(1, total)
	w.b.Settings.Learn = true
	for i := range n {
		s := jobspec.Spec{Template: 7, DefaultMemory: true, Request: gpu.Request{Min: 1, Max: 1, Memory: 8000 * gpu.MiB, MaxUtil: 100, Share: true}}
		if change != nil {
			change(i, &s)
		}
		w.job(fmt.Sprint("j", i), fmt.Sprint("true ", i), s, "")
	}
	return w
}

// takes makes all running jobs use memory for a duration, then ends them.
func (w *world) takes(memory gpu.Bytes, d time.Duration, e Ended) {
	var names []string
	for _, j := range w.core.Snapshot(w.now).In(state.Running) {
		names = append(names, j.Name)
		w.uses = append(w.uses, use{w.attempt(j.Name), 0, memory})
	}
	w.wait(d)
	for _, name := range names {
		e.Elapsed = d
		w.exit(name, e)
	}
}

func (w *world) running() (grants []gpu.Bytes) {
	for _, j := range w.core.Snapshot(w.now).In(state.Running) {
		granted, _ := j.Attempt.Memory()
		grants = append(grants, granted)
	}
	return grants
}

// From the fourth job of a seed group on, the memory to reserve is learned from the earlier jobs. That
// includes jobs that were already waiting.
func TestMemoryIsLearnedFromSeedGroup(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 9, nil)
	w.b.Settings.MaxConcurrent = 1
	w.open()
	w.send(Began{})
	for range 3 {
		w.takes(9*gpu.GiB, time.Minute, Ended{})
		w.wait(time.Second)
	}
	w.b.Settings.MaxConcurrent = 0
	w.wait(10 * time.Second)
	if got := fmt.Sprint(w.running()); got != "[10GiB 10GiB 10GiB]" {
		t.Errorf("after three jobs that took 9 GiB, the next ones reserve %s", got)
	}
	if m, runs := w.core.Learned(8); m != 10*gpu.GiB || runs != 3 {
		t.Errorf("learned %s from %d", m, runs)
	}
	// The next run learns the same from the ledger.
	h := w.replay()
	c := New(w.b, h, w.opts)
	c.Use(w.pool())
	if m, runs := c.Learned(8); m != 10*gpu.GiB || runs != 3 {
		t.Errorf("the next run learned %s from %d", m, runs)
	}
	w.b.Settings.Learn = false
	if m, runs := c.Learned(8); m != 0 || runs != 0 {
		t.Errorf("with learn: false, learned %s from %d", m, runs)
	}
}

// A claim states when its job is expected to end: after its timeout, or else after the 90th percentile of
// similar jobs.
func TestClaimsStateExpectedEnd(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 13, func(i int, s *jobspec.Spec) {
		if i == 12 {
			s.Timeout = time.Hour
		}
	})
	var ends []time.Duration
	w.hook = func(a Action) {
		if p, ok := a.(Prepare); ok {
			ends = append(ends, 0)
			if !p.Grant.Ends.IsZero() {
				ends[p.Job] = p.Grant.Ends.Sub(w.now.Wall)
			}
		}
	}
	w.b.Settings.MaxConcurrent = 1
	w.open()
	w.send(Began{})
	for i := range 12 {
		w.takes(gpu.GiB, time.Duration(i+1)*time.Minute, Ended{})
		w.wait(time.Second)
	}
	if got := fmt.Sprint(ends); got != "[0s 1m0s 2m0s 3m0s 4m0s 5m0s 6m0s 7m0s 8m0s 9m0s 9m0s 10m0s 1h0m0s]" {
		t.Errorf("jobs that take 1, 2, 3 … minutes are expected to end after %s", got)
	}
}

// Nothing may be learned from inconclusive readings or other groups, or for a job that specifies its
// memory.
func TestInconclusiveMemoryIsNotLearned(t *testing.T) {
	for name, test := range map[string]struct {
		memory gpu.Bytes
		d      time.Duration
		change func(i int, s *jobspec.Spec)
	}{
		"set by the job": {9 * gpu.GiB, time.Minute, func(_ int, s *jobspec.Spec) { s.DefaultMemory = false }},
		"other groups":   {9 * gpu.GiB, time.Minute, func(i int, s *jobspec.Spec) { s.Template = uint64(i + 1) }},
		"too short":      {9 * gpu.GiB, 2 * time.Second, nil},
		"all of the GPU": {24 * gpu.GiB, time.Minute, nil},
		"no readings":    {0, time.Minute, nil},
	} {
		w := learning(t, 32*gpu.GiB, 5, test.change)
		warned := 0
		w.hook = func(a Action) {
			if a, ok := a.(Warn); ok && strings.Contains(a.Text, "set gpu_memory") {
				warned++
			}
		}
		w.b.Settings.MaxConcurrent = 1
		w.open()
		w.send(Began{})
		for range 4 {
			w.takes(test.memory, test.d, Ended{})
			w.wait(time.Second)
		}
		if m, runs := w.core.Learned(4); runs != 0 {
			t.Errorf("%s: learned %s from %d", name, m, runs)
		}
		if want := name == "all of the GPU"; want != (warned == 1) || warned > 1 {
			t.Errorf("%s: got %d warnings", name, warned)
		}
	}
}

// The reserved memory must be more than what was too little for a job, and at least min_memory, and must
// fit on a GPU.
func TestLearnedMemoryHasBounds(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 6, nil)
	w.b.Settings.MaxConcurrent = 1
	w.open()
	w.send(Began{})
	w.takes(7*gpu.GiB, time.Minute, Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}})
	for range 3 {
		w.wait(time.Second)
		w.takes(5*gpu.GiB, time.Minute, Ended{})
	}
	if m, _ := w.core.Learned(5); m != (8000 * gpu.MiB).Ample() {
		t.Errorf("jobs take 5 GiB, but 8000 MiB was too little: learned %s", m)
	}
	w.core.spec(5).LeastMemory, w.core.spec(5).Request.Memory = true, 20*gpu.GiB
	if m, _ := w.core.Learned(5); m != 0 || w.core.Request(5).Memory != 20*gpu.GiB {
		t.Errorf("with min_memory 20 GiB: learned %s, requests %s", m, w.core.Request(5).Memory)
	}
	w.core.spec(5).LeastMemory = false
	w.core.h.SeedGroup(0, w.core.seedGroupName(5)).Short = 40 * gpu.GiB
	if m, _ := w.core.Learned(5); m != 31*gpu.GiB {
		t.Errorf("with GPUs of 32 GiB: learned %s, want 31 GiB", m)
	}
}

// A reload ranks a job that has started by its estimate, too, since it may have to start again.
func TestReloadRanksStartedJobByItsEstimate(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 6, func(i int, s *jobspec.Spec) {
		s.Template, s.Request.Share = 1, false
		if i == 1 || i == 5 {
			s.Template = 2
		}
	})
	w.open()
	w.send(Began{})
	for i := range 4 { // j1 takes ten minutes, the others one
		w.takes(gpu.GiB, []time.Duration{time.Minute, 10 * time.Minute, time.Minute, time.Minute}[i], Ended{})
		w.wait(time.Second)
	}
	w.send(StopRequested{All: true, Kill: true})
	w.takes(0, 0, Ended{End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyInterrupted}})
	w.b.Settings.Order = jobspec.LongestFirst
	w.open()
	w.send(Began{})
	if p := w.core.jobs[5].phase; p != preparing && p != running {
		t.Fatalf("j5 is %v, want it to start first", p)
	}
	if w.core.rank(); w.core.ranks[5] > w.core.ranks[4] {
		t.Error("j5 comes after j4, although it takes longer")
	}
}

// After a crash, a run with --only waits for the other jobs' attempts too.
func TestRemainingIncludesUnselectedAttempts(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 3, func(_ int, s *jobspec.Spec) { s.Request.Share = false })
	w.open()
	w.send(Began{})
	w.opts.Selected = []bool{false, false, true}
	w.open()
	w.send(Began{})
	for _, uni := range w.adopt {
		w.send(Started{UniID: uni, PID: 1, PIDStart: 1})
	}
	r := w.core.Remaining(w.now, gpu.Observation{})
	if len(r.Open) != 1 || len(r.Batch.Jobs) != 2 || r.Batch.Jobs[0].Name != r.Open[0].Start.Job {
		t.Errorf("got attempts %+v and jobs %+v, want the running job and the selected one", r.Open, r.Batch.Jobs)
	}
}

// The durations of ended jobs determine the estimate for the rest, and which jobs start first.
func TestDurationsAreLearned(t *testing.T) {
	w := learning(t, 32*gpu.GiB, 6, func(i int, s *jobspec.Spec) {
		s.Template, s.Request.Share = uint64(1+i%2), false
	})
	w.open()
	w.send(Began{})
	if known := w.core.Remaining(w.now, gpu.Observation{}).Known[5]; len(known) > 0 {
		t.Errorf("before any end: got durations %v", known)
	}
	for i := range 4 { // j0 and j2 take one minute, j1 and j3 ten
		w.takes(gpu.GiB, []time.Duration{time.Minute, 10 * time.Minute}[i%2], Ended{})
		w.wait(time.Second)
	}
	w.send(StopRequested{All: true, Kill: true})
	w.takes(0, 0, Ended{End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyInterrupted}})
	w.b.Settings.Order = jobspec.LongestFirst
	w.open()
	w.send(Began{})
	s := w.core.Snapshot(w.now)
	if s.Jobs[0].Name != "j5" || *s.Jobs[0].Attempt.Takes != 600 {
		t.Errorf("the longest job must start first, got %+v", s.Jobs[0])
	}
	if d, runs := w.core.Expected(4); d != time.Minute || runs != 2 {
		t.Errorf("j4 is expected to take %v, learned from %d, want 1m from 2", d, runs)
	}
	r := w.core.Remaining(w.now, gpu.Observation{})
	if len(r.Batch.Jobs) != 2 || r.Batch.Jobs[0].Name != "j5" || !slices.Equal(r.Known[0], []float32{600, 600}) || !slices.Equal(r.Known[1], []float32{60, 60}) {
		t.Errorf("the remaining jobs are %+v, with the known durations %v", r.Batch.Jobs, r.Known)
	}
	w.core.spec(5).Template, w.core.usage.groups = 3, nil
	if r := w.core.Remaining(w.now, gpu.Observation{}); len(r.Known[0]) != 4 {
		t.Errorf("a job without similar jobs must get the 4 durations of the batch, got %v", r.Known[0])
	}
}
