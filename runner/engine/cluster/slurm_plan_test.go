package cluster_test

import "testing"

// A job's own cluster keys apply only to that job.
func TestRealJobKeysOnSlurm(t *testing.T) {
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s, partition: gpu}}
defaults: {gpus: 0, cluster: {time: 9m}, run: 'squeue -h -j $SLURM_JOB_ID -O "Partition: ,TimeLimit: ,NodeList: " | head -1 >{name}.is'}
jobs:
  - {name: a, cluster: {exclude: node1}}
  - {name: b, cluster: {partition: urgent, exclude: [node2], time: 7m}}
`)
	b.Says(b.Run("jobs.yaml"), "2 of 2 done")
	for job, want := range map[string]string{"a": "gpu 9:00 node2", "b": "urgent 7:00 node1"} {
		if got := b.Read(job + ".is"); got != want {
			t.Errorf("%s ran with %q, want %q", job, got, want)
		}
	}
}

// plan shows what would be submitted and whether Slurm accepts it, without submitting anything.
func TestRealPlanSubmitsNothing(t *testing.T) {
	b := slurmSite.New(t, `
settings: {engine: slurm}
jobs:
  - {name: "j{i}", matrix: {i: "0..4"}, gpus: 2, timeout: 1h, run: "true"}
  - {name: huge, gpus: 9, run: "true"}
  - {name: modelled, gpu_model: a100, run: "true"}
`)
	out := b.Run("plan", "jobs.yaml")
	b.Says(out, "  5 jobs (j0): --gres=gpu:2 --time=63\n      slurm may end them after 1h02m, unless gpurun does so first\n      slurm accepts them (estimated start: now)")
	b.Says(out, "  1 job (huge): --gres=gpu:9\n      slurm refuses them: Requested node configuration is not available (request less;")
	b.Says(out, "cannot submit them: gpu_model: no name for \"a100\" on this cluster")
	b.Says(b.Run("doctor", "--engine", "slurm"), "ok  accepts a job with --gres=gpu:1 (estimated start: now)")
	if left := slurmSite.Left(); left != "" {
		t.Errorf("plan submitted jobs:\n%s", left)
	}
}
