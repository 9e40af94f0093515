package sched

import (
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/state"
)

// twoGPUs returns a pool of two GPUs, and an attempt of this user that was granted the first.
func twoGPUs() (*gpu.Pool, *attempts, *attempt) {
	devs := []gpu.Device{{Index: 0, UUID: uuid(0), Total: 24 * gpu.GiB}, {Index: 1, UUID: uuid(1), Total: 24 * gpu.GiB}}
	a := &attempt{job: 0, name: "a", uniID: "a.1", grant: gpu.Grant{Indices: []int{0}, UUIDs: []gpu.UUID{uuid(0)}, Memory: 20 * gpu.GiB}}
	a.gpuUses = []gpuUse{{used: gpu.GiB}}
	return gpu.NewPool(devs, gpu.Rules{MinGPUs: -1, MaxGPUs: -1, UID: 1000}), &attempts{all: []*attempt{a}, byID: map[string]*attempt{"a.1": a}}, a
}

func list(i int, procs ...gpu.Process) *gpu.Reading {
	r := &gpu.Reading{UUID: uuid(i), Total: 24 * gpu.GiB, Free: 24 * gpu.GiB, Listed: true, Processes: procs}
	for _, p := range procs {
		r.Free, r.Used = r.Free-p.Memory, r.Used+p.Memory
	}
	return r
}

func TestStrayIsReportedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(s *sharing, a *attempt, p *gpu.Process)
		allowed bool
		want    string // the beginning of the warning; "" for none
		end     bool
	}{
		"its job is stopped":                {func(*sharing, *attempt, *gpu.Process) {}, false, "stopping a: process 7 uses GPU 1, but the job was assigned GPU 0", true},
		"its job allows it":                 {func(*sharing, *attempt, *gpu.Process) {}, true, "a: process 7", false},
		"the pid may match by chance":       {func(_ *sharing, _ *attempt, p *gpu.Process) { p.Doubtful = true }, false, "a: apparently, process 7", false},
		"the pids are known to be reliable": {func(s *sharing, _ *attempt, p *gpu.Process) { s.pidsTell, p.Doubtful = true, true }, false, "stopping a", true},
		"its job is being stopped":          {func(_ *sharing, a *attempt, _ *gpu.Process) { a.stop = state.WhyTimeout }, false, "", false},
		"an earlier run was stopping it":    {func(_ *sharing, a *attempt, _ *gpu.Process) { a.stop, a.prior = state.WhyStray, true }, false, "stopping a", true},
		"the engine has not found it yet":   {func(_ *sharing, a *attempt, _ *gpu.Process) { a.asked = true }, false, "", false},
		"a process of no attempt":           {func(_ *sharing, _ *attempt, p *gpu.Process) { p.Attempt = "" }, false, "", false},
	} {
		pool, live, a := twoGPUs()
		s, p := &sharing{}, gpu.Process{PID: 7, UID: 1000, Attempt: "a.1"}
		row.change(s, a, &p)
		warning, end := "", false
		found := s.strays(list(1, p), live, pool, func(int32) bool { return row.allowed })
		for _, f := range found {
			warning, end = warning+f.warning, f.end
		}
		if row.want == "" && warning != "" || !strings.HasPrefix(warning, row.want) || end != row.end || end != (a.stray != "") {
			t.Errorf("%s: got the warning %q, stopped: %v; want %q, %v", name, warning, end, row.want, row.end)
		}
		doubtful := p.Doubtful && !s.pidsTell // reported at each reading, because it may become certain
		if again := s.strays(list(1, p), live, pool, func(int32) bool { return row.allowed }); len(again) > 0 && !doubtful {
			t.Errorf("%s: the stray was reported again", name)
		}
		if own := s.strays(list(0, p), live, pool, func(int32) bool { return false }); own != nil {
			t.Errorf("%s: a process on its own GPU was reported", name)
		}
	}
}

// A process that starts on the GPU of an attempt is reported once. Processes that were there before the
// attempt are not reported.
func TestNewcomerIsReportedOnce(t *testing.T) {
	pool, live, a := twoGPUs()
	before, after := gpu.Process{PID: 8, UID: 1001, User: "bob", Memory: gpu.GiB}, gpu.Process{PID: 9, UID: 1001, User: "bob", Memory: gpu.GiB}
	pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0, before), *list(1)}})
	s := &sharing{}
	s.begin(a, &attempts{}, pool)
	if w := s.newcomers(list(0, before), live, pool); w != nil {
		t.Errorf("a process from before the attempt: got %q, want no warning", w)
	}
	if w := s.newcomers(list(1, after), live, pool); w != nil {
		t.Errorf("a GPU without attempts: got %q, want no warning", w)
	}
	w := s.newcomers(list(0, before, after), live, pool)
	if len(w) != 1 || !strings.Contains(w[0], "bob's process (pid 9, 1 GiB) started on GPU 0, next to a") {
		t.Errorf("got %q", w)
	}
	after.Memory = 4 * gpu.GiB
	if w := s.newcomers(list(0, before, after), live, pool); w != nil || len(a.came) != 1 || a.came[0].Memory != after.Memory {
		t.Errorf("at the next reading: got %q and remembered %+v", w, a.came)
	}
	s.newcomers(list(0, before), live, pool) // the process has ended
	if w := s.newcomers(list(0, before, after), live, pool); len(w) != 1 {
		t.Errorf("when the process starts again: got %q, want a warning", w)
	}
}

func TestBlameForOutOfMemory(t *testing.T) {
	most := func(int32) gpu.Bytes { return 23 * gpu.GiB }
	own := gpu.Process{PID: 1, UID: 1000, Attempt: "a.1", Memory: 12 * gpu.GiB}
	for name, row := range map[string]struct {
		cause  Cause
		others []gpu.Process // when it ran out of memory
		want   fault
		why    string
	}{
		"no other process":            {GPUMemory, nil, unknown, ""},
		"another user took the rest":  {GPUMemory, []gpu.Process{{PID: 9, UID: 1001, User: "bob", Memory: 11 * gpu.GiB}}, theirs, "meanwhile, bob's process (pid 9, 11 GiB) started on GPU 0 and left the job"},
		"another user took little":    {GPUMemory, []gpu.Process{{PID: 9, UID: 1001, User: "bob", Memory: gpu.GiB}}, unknown, ""},
		"the same user took the rest": {GPUMemory, []gpu.Process{{PID: 9, UID: 1000, Memory: 11 * gpu.GiB}}, unknown, ""},
		"host memory":                 {HostMemory, []gpu.Process{{PID: 9, UID: 1001, Memory: 11 * gpu.GiB}}, unknown, ""},
	} {
		pool, live, a := twoGPUs()
		pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0), *list(1)}})
		(&sharing{}).begin(a, live, pool)
		a.company[0].add(list(0, append(row.others, own)...), a.uniID, own.Memory)
		if got, why := blame(a, row.cause, pool, most); got != row.want || row.why == "" && why != "" || !strings.HasPrefix(why, row.why) {
			t.Errorf("%s: got %v, %q, want %v, %q", name, got, why, row.want, row.why)
		}
	}
	pool, live, a := twoGPUs()
	pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0), *list(1)}})
	(&sharing{}).begin(a, live, pool)
	a.peak = 24 * gpu.GiB
	if got, why := blame(a, GPUMemory, pool, most); got != hopeless || !strings.Contains(why, "no GPU available to it has more memory") {
		t.Errorf("the job had the largest GPU to itself: got %v, %q", got, why)
	}
}
