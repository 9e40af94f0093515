package sched

import (
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// After an out-of-memory failure, a job requests more memory from the cluster, but at most what its
// largest GPU has.
func TestOOMJobRequestsMoreOnCluster(t *testing.T) {
	w := newWorld(t)
	w.opts.Elsewhere, w.opts.Queues, w.opts.Largest = true, true, 40*gpu.GiB
	w.job("a", "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 16 * gpu.GiB}, Memory: gpu.GiB, Retry: jobspec.Retry{Max: 4, MemoryGrowth: 2}}, "")
	w.open()
	w.send(Began{})
	for _, step := range []struct {
		end       Ended
		gpu, host gpu.Bytes // requested by the next attempt
	}{
		{Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}}, 32 * gpu.GiB, gpu.GiB},
		{Ended{Cause: HostMemory, End: state.End{ExitCode: 1, PeakHost: 3 * gpu.GiB}}, 32 * gpu.GiB, 6 * gpu.GiB},
		{Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}}, 40 * gpu.GiB, 6 * gpu.GiB},
		{Ended{Cause: HostMemory, End: state.End{ExitCode: 1, PeakHost: gpu.GiB}}, 40 * gpu.GiB, 12 * gpu.GiB},
	} {
		w.exit("a", step.end)
		var start state.Fact
		for _, r := range w.ledger {
			if r.Fact.Kind == state.KindStart {
				start = r.Fact
			}
		}
		if host := w.core.memory(0); start.Memory != step.gpu || host != step.host {
			t.Errorf("after %v, the job requests %v of GPU memory and %v of host memory, want %v and %v", step.end.Cause, start.Memory, host, step.gpu, step.host)
		}
	}
}

// More memory than the cluster's largest GPU has would never be granted.
func TestLearnedMemoryFitsLargestGPUOfCluster(t *testing.T) {
	w := newWorld(t)
	w.opts.Elsewhere, w.opts.Queues, w.opts.Largest = true, true, 40*gpu.GiB
	w.b.Settings.Learn = true
	w.job("a", "true", jobspec.Spec{Template: 7, DefaultMemory: true, Request: gpu.Request{Min: 1, Max: 1, Memory: gpu.GiB}}, "")
	w.open()
	w.core.h.SetSeedGroups(0, []state.SeedGroup{{Name: w.core.seedGroupName(0), Peaks: make([]gpu.Bytes, state.LearnFrom), Short: 40 * gpu.GiB}})
	if m, runs := w.core.Learned(0); m != 40*gpu.GiB || runs != state.LearnFrom {
		t.Errorf("learned %s from %d runs, want 40 GiB", m, runs)
	}
}

// The node reads the GPUs of its jobs. The end must record the peaks that it read.
func TestPeaksReadByNodeAreRecorded(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	w.exit("a", Ended{End: state.End{Peaks: []gpu.Peak{{Used: 3, Total: 10}, {Used: 8, Total: 10}}, Readings: 4}})
	end := w.ledger[len(w.ledger)-1].Fact
	if end.PeakMemory != 8 || end.PeakReadings != 4 || len(end.PeakEach) != 2 || end.PeakEach[0] != 3 {
		t.Errorf("got the end %+v", end)
	}
}
