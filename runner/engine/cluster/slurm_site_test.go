package cluster_test

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/slurm"
)

// The tests TestReal* run gpurun with the Slurm started by testdata/cluster.sh. To run them, use
// "make engines". For longer runs with more kills, see docs/internals/reliability.md.

var slurmSite = Site{
	Engine: "slurm", Folder: "slurm", Dialect: slurm.Dialect{},
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
	Before:   block, After: unblock,
	Fail:   down,
	Told:   ended,
	Submit: []string{"sbatch", "--parsable", "-c", "1", "--mem=1G", "--gres=gpu:2"},
	// Slurm may warn up to half a minute early. With a shorter limit, that could be before any job starts.
	Limit: []string{"-t", "3", "--signal=B:TERM@45"}, Warn: []string{"scancel", "--batch", "--signal=TERM"},
	Running: slurmFates,
}

func init() { slurmSite.Queued = slurmWaiting } // slurmWaiting refers to slurmSite

func TestRealLaggingFilesRunJobsOnce(t *testing.T) { slurmSite.Lagging(t) }

// ended returns the cluster's records of past tasks. The test cluster has no accounting, but
// reports tasks that ended within the last minute.
func ended(b *Bench) map[string]Told {
	all := map[string]Told{}
	for line := range strings.Lines(b.Command("squeue", "-h", "-t", "all", "-O", "ArrayJobID:|,ArrayTaskID:|,StartTime:|,EndTime:|,NodeList:|")) {
		f := strings.Split(line, "|")
		begun, _ := time.ParseInLocation("2006-01-02T15:04:05", f[2], time.Local)
		over, _ := time.ParseInLocation("2006-01-02T15:04:05", f[3], time.Local)
		all[f[0]+"_"+f[1]] = Told{Begun: begun, Over: over, Node: f[4]}
	}
	return all
}

// tend makes all nodes accept jobs. Slurm drains a node on which it starts a job with an ID that it
// used before it crashed.
func tend() { Quietly("scontrol", "update", "nodename=node[1-2]", "state=resume") }

// crowd submits a job without gpurun. It runs until unblock.
func crowd(b *Bench, args ...string) {
	b.Helper()
	b.Command(append([]string{"sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600", "-J", "blocker"}, args...)...)
}

// blocked waits until n jobs of crowd are running.
func blocked(b *Bench, n int) {
	b.Helper()
	b.Until("blockers run", time.Minute, func() bool {
		return strings.Count(b.Command("squeue", "-h", "-n", "blocker", "-t", "R"), "blocker") == n
	})
}

// block occupies all GPUs of both nodes.
func block(b *Bench) { blockFor(b) }

// blockFor is block with additional submission arguments.
func blockFor(b *Bench, args ...string) {
	b.Helper()
	for _, n := range []string{"node1", "node2"} {
		crowd(b, append([]string{"-w", n, "--gres=gpu:4"}, args...)...)
	}
	blocked(b, 2)
}

func take(b *Bench, gpus string) { crowd(b, "--gres=gpu:"+gpus) }

func unblock(b *Bench) { b.Command("scancel", "-n", "blocker") }
