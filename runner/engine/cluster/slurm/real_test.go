package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster/clustertest"
	"gpurun/state"
)

// The examples run unchanged, partly here and partly there, with one ledger.
func TestRealMultiSeed(t *testing.T) {
	text, err := os.ReadFile("../../../../jobs/multi_seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, strings.Replace(string(text), "work_dir: ..", "work_dir: .", 1))
	b.Command("cp", "-r", "../../../../jobs", b.Dir)
	b.Says(b.Run("--engine", "slurm", "jobs.yaml"), "24 succeeded")
	b.Says(b.Run("--engine", "slurm", "jobs.yaml"), "24 up to date")
	b.Says(b.Run("plan", "jobs.yaml"), "0 would run")

	b = newBench(t, `jobs: [{name: "j{i}", matrix: {i: "0..7"}, gpus: 0, run: "echo {i}"}]`)
	b.Says(b.Run("--only", "j[0-3]", "jobs.yaml"), "4 succeeded")
	b.Says(b.Run("--engine", "slurm", "jobs.yaml"), "4 succeeded, 4 up to date")
	b.Says(b.Run("jobs.yaml"), "8 up to date")
}

// The controller crashes while jobs begin and end, and forgets or repeats some of that. Every
// job ends once, and none runs twice at a time.
func TestRealControllerKilled(t *testing.T) {
	n := 20 * *clustertest.Crashes
	b := newBench(t, clustertest.Journalled("{engine: slurm, cluster: {poll: 2s}}", n, "gpus: 1", "1"))
	out := b.Crash(*clustertest.Crashes, n, tend, "jobs.yaml")
	again := b.Once(n)
	t.Logf("%d crashes of the controller, %d jobs: %d began again", *clustertest.Crashes, n, again)
	if t.Failed() {
		t.Log(out)
	}
}

// A run that is killed at any moment finds its jobs again.
func TestRealRunnerKilled(t *testing.T) {
	n := 4 * *clustertest.Kills
	b := newBench(t, clustertest.Journalled("{engine: slurm, cluster: {poll: 2s}}", n, "gpus: 0", "0.5"))
	out := b.KillRunners(*clustertest.Kills, "jobs.yaml")
	if again := b.Once(n); again > 0 {
		t.Errorf("%d began again", again)
	}
	if left := listed(""); left != "" {
		t.Errorf("left in the cluster:\n%s", left)
	}
	t.Logf("%d kills of the runner, %d jobs", *clustertest.Kills, n)
	if t.Failed() {
		t.Log(out)
	}
}

// What the nodes write is seen late, and the runner is killed meanwhile: still every job runs
// once, and what Slurm says before the record is seen is not believed.
func TestRealLagging(t *testing.T) {
	n := 2 * *clustertest.Kills
	b := newBench(t, clustertest.Journalled("{engine: slurm, cluster: {poll: 1s}}", n, "gpus: 0", "0.5")+"  - {name: fails, gpus: 0, run: exit 3}\n")
	b.Lagging()
	out := b.KillRunners(*clustertest.Kills, "jobs.yaml")
	if again := b.Once(n); again > 0 {
		t.Errorf("%d began again", again)
	}
	for _, e := range b.Facts(state.KindEnd)["fails"] {
		if e.State != state.Failed || e.ExitCode == nil || *e.ExitCode != 3 {
			t.Errorf("fails ended as %+v", e)
		}
	}
	t.Logf("%d kills of the runner, %d jobs, files seen up to %v late", *clustertest.Kills, n, *clustertest.Lag)
	if t.Failed() {
		t.Log(out)
	}
}

// Thousands of jobs are submitted in a few calls, and cost next to nothing while they wait. They
// wait because the partition is down: here the nodes would compute on the controller's cores.
// It is the last test: a controller that crashes soon after it has cancelled them has them back.
func TestRealThousands(t *testing.T) {
	const n = 5000
	b := newBench(t, fmt.Sprintf(`
settings: {engine: slurm, cluster: {poll: 2s}}
jobs: [{name: "j{i}", matrix: {i: "0..%d"}, gpus: 0, run: "true"}]
`, n-1))
	b.Command("scontrol", "update", "partitionname=gpu", "state=down")
	b.Cleanup(func() { clustertest.Quietly("scontrol", "update", "partitionname=gpu", "state=up") })
	controller, err := strconv.Atoi(strings.TrimSpace(b.Command("cat", "/var/lib/gpurun-test-slurm/run/slurmctld.pid")))
	if err != nil {
		t.Fatal(err)
	}
	began, was := time.Now(), spent(controller)
	cmd, out := b.Start("jobs.yaml")
	var queued map[string][]state.Fact
	b.Until("all are submitted", 2*time.Minute, func() bool {
		queued = b.Facts(state.KindQueued)
		return len(queued) == n
	})
	last := began
	for _, q := range queued {
		if q[0].JobID == "" {
			t.Fatalf("%+v has no job ID", q[0])
		}
		if q[0].Time.After(last) {
			last = q[0].Time
		}
	}
	calls, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml/submits/*/answer"))
	t.Logf("submitted %d jobs in %.2f s, %d calls; CPU: gpurun %v, slurmctld %v", n, last.Sub(began).Seconds(), len(calls), spent(cmd.Process.Pid), spent(controller)-was)
	if len(calls) > n/50 {
		t.Errorf("%d calls for %d jobs", len(calls), n)
	}
	u, c := spent(cmd.Process.Pid), spent(controller)
	time.Sleep(10 * time.Second)
	t.Logf("while they wait, a second costs gpurun %v and slurmctld %v of CPU, with a list every 2 s", (spent(cmd.Process.Pid)-u)/10, (spent(controller)-c)/10)
	began = time.Now()
	rows, err := words{}.Rows(b.Command(words{}.List("root").Args...))
	t.Logf("a list: %v, %d rows", time.Since(began).Round(time.Millisecond), len(rows))
	if err != nil || len(rows) > n/50 {
		t.Errorf("a list has %d rows for %d jobs that are alike: %v", len(rows), n, err)
	}
	began = time.Now()
	_ = cmd.Process.Signal(os.Interrupt)
	b.Until("it asks what to do", time.Minute, func() bool { return clustertest.Exited(cmd) || strings.Contains(b.Run("status"), "stop") })
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	t.Logf("taken back in %.1f s", time.Since(began).Seconds())
	b.Until("the cluster has none left", time.Minute, func() bool { return listed("") == "" })
	if t.Failed() {
		t.Log(out.String())
	}
}

// spent returns the CPU time of a process and those of its children that have ended.
func spent(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f, ticks := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])), 0
	for _, i := range []int{11, 12, 13, 14} {
		n, _ := strconv.Atoi(f[i])
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
