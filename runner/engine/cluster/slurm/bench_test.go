package slurm

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
)

// The TestReal* run gpurun against the Slurm that testdata/cluster.sh starts: make engines.
// Longer, with more kills: see docs/reliability.md.

func TestMain(m *testing.M) { clustertest.Main(m) }

// newBench makes a bench on a cluster without jobs, and leaves it so.
func newBench(t *testing.T, file string) *clustertest.Bench {
	t.Helper()
	b := clustertest.New(t, "slurm", file)
	clear(b)
	t.Cleanup(func() { clear(b) })
	return b
}

// clear ends all jobs, and has all nodes take new ones.
func clear(b *clustertest.Bench) {
	b.Helper()
	tend()
	b.Until("the cluster is empty", 2*time.Minute, func() bool {
		clustertest.Quietly("scancel", "-Q", "-u", "root")
		return listed("") == ""
	})
}

// tend has all nodes take jobs. Slurm sets one aside on which it starts a job whose ID it had
// given away before it crashed.
func tend() { clustertest.Quietly("scontrol", "update", "nodename=node[1-2]", "state=resume") }

// listed returns the tasks that wait or run, a line each, by the name of their job or all.
func listed(name string) string {
	args := []string{"squeue", "-h", "-r", "-t", "PD,R,CG,CF,S", "-o", "%i %T %r %N"}
	if name != "" {
		args = append(args, "-n", name)
	}
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return "? " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// block takes all GPUs of both nodes as somebody would who does not use gpurun, until unblock.
func block(b *clustertest.Bench) {
	b.Helper()
	for _, n := range []string{"node1", "node2"} {
		b.Command("sbatch", "--parsable", "-o", "/dev/null", "-w", n, "--gres=gpu:4", "--wrap", "sleep 600", "-J", "blocker")
	}
	b.Until("blockers run", time.Minute, func() bool { return strings.Count(listed("blocker"), "RUNNING") == 2 })
}

func unblock(b *clustertest.Bench) { b.Command("scancel", "-n", "blocker") }
