package schema

import (
	"fmt"
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/state"
)

// failed returns a job with parameters such as "model=vit lr=0.1", an end, and the GPUs of its last
// attempt.
func failed(params string, end state.Phase, cause string, gpus ...int) *Job {
	j := &Job{Name: strings.ReplaceAll(params, " ", "-"), Params: map[string]string{}, State: end, Attempts: 1, Attempt: &Attempt{UniID: Known("of " + params)}}
	for _, pair := range strings.Fields(params) {
		k, v, _ := strings.Cut(pair, "=")
		j.Params[k] = v
	}
	if cause != "" {
		j.Cause = &Cause{state.CauseExit, cause}
	}
	for _, g := range gpus {
		j.Attempt.GPUs = append(j.Attempt.GPUs, AttemptGPU{Index: g})
	}
	return j
}

func TestFailuresWithTheSameErrorShareAGroup(t *testing.T) {
	const nan, ok = "ValueError: loss is nan", state.Succeeded
	oom := func(params string, peak gpu.Bytes) *Job {
		j := failed(params, state.OOM, "CUDA out of memory", 3)
		j.Cause.Code = state.CauseOOMGPU
		j.Attempt.GPUs[0].Peak, j.Attempt.GPUs[0].Granted = &peak, 10*gpu.GiB
		return j
	}
	twice := failed("s=3", state.Failed, "SIGSEGV at epoch 7/20", 4)
	twice.Attempts = 2
	for _, tt := range []struct {
		name string
		jobs []*Job
		want []string // "count cause: what sets the jobs apart"
	}{
		{"none", []*Job{failed("s=1", ok, "")}, nil},
		{"two values together", []*Job{
			failed("m=vit lr=0.1 s=1", state.Failed, nan), failed("m=vit lr=0.1 s=2", state.Failed, nan),
			failed("m=vit lr=0.01 s=1", ok, ""), failed("m=cnn lr=0.1 s=1", ok, ""),
		}, []string{"2 " + nan + ": all jobs with lr=0.1 m=vit"}},
		{"one value is enough", []*Job{
			failed("m=vit lr=0.1 s=1", state.Failed, nan), failed("m=vit lr=0.1 s=2", state.Failed, nan), failed("m=cnn lr=0.1 s=1", state.UpToDate, ""),
		}, []string{"2 " + nan + ": all jobs with m=vit"}},
		{"one with this value has not ended", []*Job{
			failed("m=vit s=1", state.Failed, nan), failed("m=vit s=2", state.Failed, nan), failed("m=vit s=3", state.Pending, ""), failed("m=cnn s=1", ok, ""),
		}, []string{"2 " + nan + ": m=vit"}},
		{"a success shares the values, but not the GPU", []*Job{
			failed("m=vit s=1", state.Failed, nan, 2), failed("m=vit s=2", state.Failed, nan, 2), failed("m=vit s=3", ok, "", 1),
		}, []string{"2 " + nan + ": all on GPU 2"}},
		{"a success shares the values and the GPU", []*Job{
			failed("m=vit s=1", state.Failed, nan, 2), failed("m=vit s=2", state.Failed, nan, 2), failed("m=vit s=3", ok, "", 2),
		}, []string{"2 " + nan + ": "}},
		{"no other jobs", []*Job{failed("m=vit s=1", state.Failed, nan, 2), failed("m=vit s=2", state.Failed, nan, 2)}, []string{"2 " + nan + ": "}},
		{"largest group first; a single job has its GPU", []*Job{
			twice, failed("s=1", state.Failed, "ValueError: 1"), failed("s=2", state.Failed, "ValueError: 2"), failed("s=9", state.Blocked, "need s=3 failed"), failed("s=8", state.Cancelled, "by alice"),
		}, []string{"2 ValueError: 1: ", "1 SIGSEGV at epoch 7/20: GPU 4; 2 attempts"}},
		{"memory", []*Job{oom("m=a s=1", 3*gpu.GiB), oom("m=a s=2", 3584*gpu.MiB), failed("m=b s=1", ok, "")}, []string{"2 CUDA out of memory: all jobs with m=a; peak 3.5 GiB of 10 GiB"}},
	} {
		groups, of := Failures(tt.jobs)
		var got []string
		for g, a := range groups {
			apart := ""
			if a.Apart != nil {
				apart = *a.Apart
			}
			got = append(got, fmt.Sprintf("%d %s: %s", a.Count, a.Cause.Text, apart))
			if first := tt.jobs[indexOf(of, g)]; a.Jobs[0] != first.Name || *a.UniID != *first.Attempt.UniID || a.State != first.State {
				t.Errorf("%s: group %d is %+v, which does not match its first job %+v", tt.name, g, a, first)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func indexOf(of []int, group int) int {
	for i, g := range of {
		if g == group {
			return i
		}
	}
	return -1
}

func TestTriedNamesEachGPU(t *testing.T) {
	j := failed("s=1", state.Failed, "SIGSEGV", 4)
	j.Attempts = 2
	groups, _ := Failures([]*Job{j})
	on := func(job string, n, gpu int) AttemptRow {
		return AttemptRow{Job: job, Attempt: Attempt{N: n, GPUs: []AttemptGPU{{Index: gpu}}}}
	}
	Tried(groups, func() []AttemptRow {
		return []AttemptRow{on("s=1", 1, 7), on("s=1", 1, 1), on("s=2", 1, 3), on("s=1", 2, 4)}
	})
	if got := Value(groups[0].Apart); got != "GPU 1, then GPU 4; 2 attempts" {
		t.Errorf("got %q, want both GPUs of s=1", got)
	}
}
