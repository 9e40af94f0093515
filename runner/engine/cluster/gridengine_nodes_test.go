package cluster_test

import (
	"testing"
	"time"

	"gpurun/state"
)

// plan shows what would be submitted and whether Grid Engine accepts it, without submitting anything.
func TestRealPlanSubmitsNothingOnGridEngine(t *testing.T) {
	b := sgeSite.New(t, `
settings: {engine: sge}
jobs:
  - {name: "j{i}", matrix: {i: "0..4"}, gpus: 2, timeout: 1h, run: "true"}
  - {name: huge, gpus: 9, run: "true"}
  - {name: wide, gpus: 0, cpus: 99, run: "true"}
  - {name: large, gpus: 0, memory: 3GiB, run: "true"}
`)
	out := b.Run("plan", "jobs.yaml")
	b.Says(out, "  5 jobs (j0): -l gpu=2,h_rt=3740\n      sge may end them after 1h02m, unless gpurun does so first\n      sge accepts them\n")
	b.Says(out, "  1 job (huge): -l gpu=9\n      sge refuses them: ")
	b.Says(out, "because it offers only hc:gpu=4.000000")
	b.Says(out, "  1 job (wide): -pe smp 99\n      sge refuses them: ")
	b.Says(out, "cannot submit them: memory: no memory resource known for this cluster")
	if left := sgeSite.Left(); left != "" {
		t.Errorf("plan submitted jobs:\n%s", left)
	}
}

// gpus lists hosts with their free GPUs, and the users of the other GPUs.
func TestRealNodesListFreeGPUs(t *testing.T) {
	b := sgeSite.New(t, "jobs: []")
	sgeSite.Take(b, "3")
	b.Until("three GPUs are listed as used", time.Minute, func() bool {
		nodes, err := sgeSite.Dialect.Nodes().Run()
		return err == nil && len(nodes) == 1 && nodes[0].GPUs == 4 && nodes[0].Used == 3
	})
	out := b.Run("gpus", "--engine", "sge")
	b.Says(out, "up     1     4     root: 1 job, 3 GPUs\n")
	b.Says(out, "gpu.q: 1 of 4 GPUs free\n")
	b.Says(b.Run("doctor", "--engine", "sge"), "ok  accepts a job with -l gpu=1")
	shut(b)
	defer open(b)
	b.Says(b.Run("gpus", "--engine", "sge"), "gpu.q: 0 of 4 GPUs free\n")
}

// A job must not begin on GPUs that are too small. The attempt spends no retry, and the next
// submission excludes that host.
func TestRealTooSmallGPUOnGridEngine(t *testing.T) {
	b := sgeSite.New(t, `
settings: {engine: sge, cluster: {poll: 1s}}
jobs:
  - {name: small, gpu_memory: 8GiB, run: 'echo $CUDA_VISIBLE_DEVICES >>ran'}
  - {name: large, needs: small, gpu_memory: 24GiB, retry: 0, run: 'echo large >>ran'}
`)
	b.Drive("count=4\ntotal.0=16384\ntotal.1=16384\ntotal.2=16384\ntotal.3=16384\n")
	out := b.Run("jobs.yaml")
	ends := b.Facts(state.KindEnd)["large"]
	if len(ends) != 2 || ends[0].Uncharged == "" || ends[1].State != state.Failed || b.Read("ran") != "0" {
		t.Fatalf("large ended as %+v; ran has %q\n%s", ends, b.Read("ran"), out)
	}
	b.Says(ends[0].Uncharged, "assigned a GPU with 16 GiB, but the job needs 24 GiB")
	b.Says(ends[1].Reason, "offers only qf:hostname=")
	b.Says(ends[1].Reason, "; gpu_memory (24 GiB) excludes ")
}
