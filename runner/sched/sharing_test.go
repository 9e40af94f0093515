package sched

import (
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/state"
)

// twoGPUs returns a pool of two GPUs, and an attempt of this user listed on the first.
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
		"it is ended":                   {func(*sharing, *attempt, *gpu.Process) {}, false, "stopping a: process 7 uses GPU 1, but the job was assigned GPU 0", true},
		"its job allows it":             {func(*sharing, *attempt, *gpu.Process) {}, true, "a: process 7", false},
		"the pid may match by chance":   {func(_ *sharing, _ *attempt, p *gpu.Process) { p.Doubtful = true }, false, "a: apparently, process 7", false},
		"the pids are known to match":   {func(s *sharing, _ *attempt, p *gpu.Process) { s.pidsTell, p.Doubtful = true, true }, false, "stopping a", true},
		"it is being stopped":           {func(_ *sharing, a *attempt, _ *gpu.Process) { a.stop = state.WhyTimeout }, false, "", false},
		"an earlier run wanted it gone": {func(_ *sharing, a *attempt, _ *gpu.Process) { a.stop, a.prior = state.WhyStray, true }, false, "stopping a", true},
		"the engine looks for it":       {func(_ *sharing, a *attempt, _ *gpu.Process) { a.asked = true }, false, "", false},
		"another's process":             {func(_ *sharing, _ *attempt, p *gpu.Process) { p.Attempt = "" }, false, "", false},
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
			t.Errorf("%s: %q, ended: %v", name, warning, end)
		}
		if again := s.strays(list(1, p), live, pool, func(int32) bool { return row.allowed }); len(again) > 0 && len(a.strayed) > 0 {
			t.Errorf("%s: reported again", name)
		}
		if own := s.strays(list(0, p), live, pool, func(int32) bool { return false }); own != nil {
			t.Errorf("%s: it strays on its own GPU", name)
		}
	}
}

// A process is reported once, when it starts on an attempt's GPU, and not if it was there before.
func TestNewcomerIsReportedOnce(t *testing.T) {
	pool, live, a := twoGPUs()
	before, after := gpu.Process{PID: 8, UID: 1001, User: "bob", Memory: gpu.GiB}, gpu.Process{PID: 9, UID: 1001, User: "bob", Memory: gpu.GiB}
	pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0, before), *list(1)}})
	s := &sharing{}
	s.begin(a, &attempts{}, pool)
	if w := s.newcomers(list(0, before), live, pool); w != nil {
		t.Errorf("who was there before has come: %q", w)
	}
	if w := s.newcomers(list(1, after), live, pool); w != nil {
		t.Errorf("somebody came to a GPU without attempts: %q", w)
	}
	w := s.newcomers(list(0, before, after), live, pool)
	if len(w) != 1 || !strings.Contains(w[0], "bob's process (pid 9, 1 GiB) started on GPU 0, next to a") {
		t.Errorf("got %q", w)
	}
	after.Memory = 4 * gpu.GiB
	if w := s.newcomers(list(0, before, after), live, pool); w != nil || len(a.came) != 1 || a.came[0].Memory != after.Memory {
		t.Errorf("again: %q, remembered %+v", w, a.came)
	}
	s.newcomers(list(0, before), live, pool) // the process has ended
	if w := s.newcomers(list(0, before, after), live, pool); len(w) != 1 {
		t.Errorf("when it comes back: %q", w)
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
		"nobody else was there":      {GPUMemory, nil, unknown, ""},
		"another user took the rest": {GPUMemory, []gpu.Process{{PID: 9, UID: 1001, User: "bob", Memory: 11 * gpu.GiB}}, theirs, "meanwhile, bob's process (pid 9, 11 GiB) started on GPU 0 and left the job"},
		"another user took little":   {GPUMemory, []gpu.Process{{PID: 9, UID: 1001, User: "bob", Memory: gpu.GiB}}, unknown, ""},
		"its own user took the rest": {GPUMemory, []gpu.Process{{PID: 9, UID: 1000, Memory: 11 * gpu.GiB}}, unknown, ""},
		"host memory":                {HostMemory, []gpu.Process{{PID: 9, UID: 1001, Memory: 11 * gpu.GiB}}, unknown, ""},
	} {
		pool, live, a := twoGPUs()
		pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0), *list(1)}})
		(&sharing{}).begin(a, live, pool)
		a.company[0].add(list(0, append(row.others, own)...), a.uniID, own.Memory)
		if got, why := blame(a, row.cause, pool, most); got != row.want || row.why == "" && why != "" || !strings.HasPrefix(why, row.why) {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
	pool, live, a := twoGPUs()
	pool.Observe(gpu.Observation{Readings: []gpu.Reading{*list(0), *list(1)}})
	(&sharing{}).begin(a, live, pool)
	a.peak = 24 * gpu.GiB
	if got, why := blame(a, GPUMemory, pool, most); got != hopeless || !strings.Contains(why, "no GPU available to it has more memory") {
		t.Errorf("it had the largest GPU to itself: %v, %q", got, why)
	}
}
