package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

const (
	smallGPUs = "count=4\ntotal.0=16384\ntotal.1=16384\ntotal.2=16384\ntotal.3=16384\n"
	largeGPUs = "count=4\ntotal.0=40960\ntotal.1=40960\ntotal.2=40960\ntotal.3=40960\nprocs.0=4711:1024\nprocs.1=4711:1024\nprocs.2=4711:1024\nprocs.3=4711:1024\n"
)

// A job must not begin on GPUs that are too small. It goes to another node without spending a retry,
// and the ledger gets the GPU readings from there.
func TestRealTooSmallGPUSpendsNoRetry(t *testing.T) {
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs: [{name: a, gpus: 2, gpu_memory: 24GiB, retry: 0, run: 'echo $SLURMD_NODENAME >>journal; until [ -e go ]; do sleep 0.1; done'}]
`)
	b.Drive(smallGPUs)
	take(b, "4")
	blocked(b, 1)
	cmd, out := b.Start("jobs.yaml")
	b.Until("a node has refused the job", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) == 1 })
	b.Write("driver", largeGPUs)
	unblock(b)
	b.Wait("journal") // because of gpu_memory, the job starts only after a GPU reading
	b.Write("go", "")
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)["a"]
	if len(ends) != 2 || len(strings.Fields(b.Read("journal"))) != 1 {
		t.Fatalf("a ended as %+v and ran on %q\n%s", ends, b.Read("journal"), out)
	}
	if ends[0].State != state.Lost || ends[0].Uncharged == "" || ends[0].Uncharged != ends[0].Reason {
		t.Errorf("the first attempt ended as %+v", ends[0])
	}
	if e := ends[1]; e.State != state.Succeeded || e.PeakMemory != gpu.GiB || len(e.PeakEach) != 2 || e.PeakReadings == 0 {
		t.Errorf("the second attempt ended as %+v", e)
	}
	b.Says(out.String(), "peak 1 GiB")
	b.Says(b.Run("history", "--json", "a"), `"peak_bytes": 1073741824`)
}

// If a job without GPUs uses one, its node ends it, and it fails with the reason. If the job's GPUs
// are known only by number, gpurun only warns, because the driver may number them differently.
func TestRealStrayProcessIsEnded(t *testing.T) {
	if ns, _ := os.Readlink("/proc/self/ns/pid"); ns != "pid:[4026531836]" { // the host's
		t.Skip("in a container, a PID from the driver may name a different process")
	}
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - {name: none, gpus: 0, retry: 2, run: 'echo $$ >none; exec sleep 1000'}
  - {name: allowed, gpus: 0, allow: [stray], run: 'echo $$ >allowed; until [ -e go ]; do sleep 0.1; done'}
  - {name: numbered, gpus: 1, run: 'echo $$ >numbered; until [ -e go ]; do sleep 0.1; done'}
`)
	b.Drive(largeGPUs)
	cmd, out := b.Start("jobs.yaml")
	pids := [3]string{}
	for i, name := range []string{"none", "allowed", "numbered"} {
		b.Wait(name)
		pids[i] = strings.TrimSpace(b.Read(name))
	}
	b.Write("driver", fmt.Sprintf("count=4\nprocs.1=%s:1024\nprocs.2=%s:1024\nprocs.3=%s:1024\n", pids[0], pids[1], pids[2]))
	b.Until("job none has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["none"]) > 0 })
	b.Until("gpurun warns about the other two jobs", time.Minute, func() bool {
		return strings.Contains(out.String(), "numbered: process "+pids[2]) && strings.Contains(out.String(), "allowed: process "+pids[1])
	})
	b.Write("go", "")
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)["none"]
	if len(ends) != 1 || ends[0].State != state.Failed || ends[0].ErrorType != state.ErrStray || !strings.Contains(ends[0].Reason, "process "+pids[0]) {
		t.Errorf("none ended as %+v\n%s", ends, out)
	}
	b.Says(out.String(), "2 of 3 done, 1 failed")
}

// A job that ran out of memory requests more on its next attempt.
func TestRealOOMJobRequestsMoreMemory(t *testing.T) {
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - name: a
    gpus: 0
    memory: 100MiB
    retry: {max: 1, on: [oom], memory_growth: 5}
    run: 'head -c 200000000 /dev/zero | tail -c 200000000 >/dev/null'
`)
	out := b.Run("jobs.yaml")
	if ends := b.Facts(state.KindEnd)["a"]; len(ends) != 2 || ends[0].State != state.OOM || ends[1].State != state.Succeeded {
		t.Errorf("a ended as %+v\n%s", ends, out)
	}
}
