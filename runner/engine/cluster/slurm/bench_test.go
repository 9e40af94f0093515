package slurm

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
)

// The TestReal* run gpurun against the Slurm that testdata/cluster.sh starts: make engines.
// Longer, with more kills: see docs/internals/reliability.md.

func TestMain(m *testing.M) { clustertest.Main(m) }

var site = clustertest.Site{
	Engine: "slurm", Dialect: dialect{},
	End:      []string{"scancel", "-Q", "-u", "root"},
	Listed:   []string{"squeue", "-h", "-r", "-t", "PD,R,CG,CF,S", "-o", "%i %T %r %N"},
	Master:   "/var/lib/gpurun-test-slurm/run/slurmctld.pid",
	Commands: []string{"sbatch", "squeue", "scancel"},
	Shut:     [2][]string{{"scontrol", "update", "partitionname=gpu", "state=down"}, {"scontrol", "update", "partitionname=gpu", "state=up"}},
	Tend:     tend,
	Suspend:  [2][]string{{"scontrol", "suspend"}, {"scontrol", "resume"}},
	JobName:  "SLURM_JOB_NAME",
	Take:     take,
	Free:     unblock,
}

// tend has all nodes take jobs. Slurm sets one aside on which it starts a job whose ID it had
// given away before it crashed.
func tend() { clustertest.Quietly("scontrol", "update", "nodename=node[1-2]", "state=resume") }

// crowd submits a job as somebody would who does not use gpurun, until unblock.
func crowd(b *clustertest.Bench, args ...string) {
	b.Helper()
	b.Command(append([]string{"sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600", "-J", "blocker"}, args...)...)
}

// blocked waits until so many of these run.
func blocked(b *clustertest.Bench, n int) {
	b.Helper()
	b.Until("blockers run", time.Minute, func() bool {
		return strings.Count(b.Command("squeue", "-h", "-n", "blocker", "-t", "R"), "blocker") == n
	})
}

// block takes all GPUs of both nodes.
func block(b *clustertest.Bench) { blockFor(b) }

// blockFor is block with more arguments of the submissions.
func blockFor(b *clustertest.Bench, args ...string) {
	b.Helper()
	for _, n := range []string{"node1", "node2"} {
		crowd(b, append([]string{"-w", n, "--gres=gpu:4"}, args...)...)
	}
	blocked(b, 2)
}

func take(b *clustertest.Bench, gpus string) { crowd(b, "--gres=gpu:"+gpus) }

func unblock(b *clustertest.Bench) { b.Command("scancel", "-n", "blocker") }
