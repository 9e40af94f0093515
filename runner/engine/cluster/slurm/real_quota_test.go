package slurm

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster"
	"gpurun/runner/engine/cluster/clustertest"
)

// take takes GPUs as somebody would who does not use gpurun, until unblock.
func take(b *clustertest.Bench, gpus string) {
	b.Helper()
	b.Command("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:"+gpus, "--wrap", "sleep 300", "-J", "blocker")
}

// What else the user has in the cluster counts, and the names are those that he chose.
func TestRealQuota(t *testing.T) {
	b := site.New(t, `
settings: {engine: slurm, cluster: {poll: 2s, max_gpus_total: 5, name_prefix: lab}}
jobs: [{name: "j{i}", matrix: {i: "0..5"}, run: 'echo {i} >>journal; until [ -e go ]; do sleep 0.1; done'}]
`)
	take(b, "3")
	cmd, out := b.Start("jobs.yaml")
	b.Until("two have begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 2 })
	b.Until("it says why the others wait", time.Minute, func() bool {
		return strings.Contains(b.Run("status"), "your jobs on slurm ask for 5 GPUs and cluster.max_gpus_total is 5")
	})
	n, err := cluster.Asking(words{}, "root")
	if err != nil || n != 5 || len(strings.Fields(b.Read("journal"))) != 2 {
		t.Errorf("%v: jobs ask for %d GPUs, want 5; %d have begun, want 2", err, n, len(strings.Fields(b.Read("journal"))))
	}
	if names := b.Command("squeue", "-h", "-o", "%j"); strings.Count(names, "lab-jobs-") != 2 {
		t.Errorf("the cluster has %q", names)
	}
	unblock(b)
	b.Until("those that fit have begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 5 })
	b.Write("go", "")
	_ = cmd.Wait()
	b.Says(out.String(), "6 succeeded")
	if ran := len(strings.Fields(b.Read("journal"))); ran != 6 {
		t.Errorf("%d ran, want 6", ran)
	}
}

// A command runs on GPUs of the cluster with the status it ends with, once the quota lets it.
func TestRealExec(t *testing.T) {
	b := site.New(t, "jobs: []")
	take(b, "3")
	args := []string{"exec", "--engine", "slurm", "--poll", "1s", "-g", "2", "--max-gpus"}
	cmd, out := b.Start(append(args, "6", "--", "sh", "-c", "echo $SLURM_JOB_NAME has $CUDA_VISIBLE_DEVICES; exit 7")...)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 7 || !strings.Contains(out.String(), "gr-exec-sh has 0,1\n") {
		t.Errorf("exit status %d, %s", cmd.ProcessState.ExitCode(), out)
	}
	shell := *b
	shell.Binary = "/bin/sh"
	cmd, out = shell.Start("-c", b.Binary+" "+strings.Join(args, " ")+" 4 -- echo ran 2>said")
	b.Says(b.Wait("said"), "waiting: your jobs on slurm ask for 3 GPUs and --max-gpus is 4")
	unblock(b)
	if err := cmd.Wait(); err != nil || out.String() != "ran\n" {
		t.Errorf("%v: %q", err, out)
	}
}
