package slurm

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster"
)

// asking returns how many GPUs all jobs in the cluster ask for.
func (b *bench) asking() int {
	b.t.Helper()
	n, err := cluster.Asking(words{}, "root")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// block takes GPUs as somebody would who does not use gpurun.
func (b *bench) block(gpus string) {
	b.t.Helper()
	id := strings.TrimSpace(b.command("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:"+gpus, "--wrap", "sleep 300", "-J", "blocker"))
	b.t.Cleanup(func() { _ = exec.Command("scancel", id).Run() })
}

// What else the user has in the cluster counts, and the names are those that he chose.
func TestRealQuota(t *testing.T) {
	b := newBench(t, `
settings: {engine: slurm, cluster: {poll: 2s, max_gpus_total: 5, name_prefix: lab}}
jobs: [{name: "j{i}", matrix: {i: "0..5"}, run: 'echo {i} >>journal; until [ -e go ]; do sleep 0.1; done'}]
`)
	b.until("the cluster is empty", time.Minute, func() bool { return b.asking() == 0 })
	b.block("3")
	cmd, out := b.start("jobs.yaml")
	b.until("two have begun", time.Minute, func() bool { return len(b.journal()) == 2 })
	b.until("it says why the others wait", time.Minute, func() bool {
		return strings.Contains(b.run("status"), "your jobs on slurm ask for 5 GPUs and cluster.max_gpus_total is 5")
	})
	if n := b.asking(); n != 5 || len(b.journal()) != 2 {
		t.Errorf("jobs ask for %d GPUs, want 5; %d have begun, want 2", n, len(b.journal()))
	}
	if names := b.command("squeue", "-h", "-o", "%j"); strings.Count(names, "lab-jobs-") != 2 {
		t.Errorf("the cluster has %q", names)
	}
	b.command("scancel", "-n", "blocker")
	b.until("those that fit have begun", time.Minute, func() bool { return len(b.journal()) == 5 })
	b.write("go", "")
	_ = cmd.Wait()
	b.says(out.String(), "6 succeeded")
	b.once(6)
}

// A command runs on GPUs of the cluster with the status it ends with, once the quota lets it.
func TestRealExec(t *testing.T) {
	b := newBench(t, "jobs: []")
	b.until("the cluster is empty", time.Minute, func() bool { return b.asking() == 0 })
	b.block("3")
	args := []string{"exec", "--engine", "slurm", "--poll", "1s", "-g", "2", "--max-gpus"}
	cmd, out := b.start(append(args, "6", "--", "sh", "-c", "echo $SLURM_JOB_NAME has $CUDA_VISIBLE_DEVICES; exit 7")...)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 7 || !strings.Contains(out.String(), "gr-exec-sh has 0,1\n") {
		t.Errorf("exit status %d, %s", cmd.ProcessState.ExitCode(), out)
	}
	shell := *b
	shell.binary = "/bin/sh"
	cmd, out = shell.start("-c", b.binary+" "+strings.Join(args, " ")+" 4 -- echo ran 2>said")
	b.says(b.wait("said"), "waiting: your jobs on slurm ask for 3 GPUs and --max-gpus is 4")
	b.command("scancel", "-n", "blocker")
	if err := cmd.Wait(); err != nil || out.String() != "ran\n" {
		t.Errorf("%v: %q", err, out)
	}
}
