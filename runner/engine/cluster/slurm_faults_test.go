package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

const (
	slurmFolder = "/var/lib/gpurun-test-slurm" // as in testdata/cluster.sh
	setting     = "/etc/slurm/slurm.conf"
)

// down makes Slurm treat a node as failed.
func down(b *Bench, node string) {
	b.Command("scontrol", "update", "nodename="+node, "state=down", "reason=test")
	b.Cleanup(tend)
}

// crash ends all processes on a node together, like a power failure. outer is the process there that
// Slurm started.
func crash(b *Bench, node string, outer int) {
	b.Helper()
	text, _ := os.ReadFile(filepath.Join(slurmFolder, "run/slurmd-"+node+".pid"))
	daemon, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", outer))
	_, rest, _ := strings.Cut(string(stat), ") ")
	step, _ := strconv.Atoi(strings.Fields(rest + " . .")[1])
	if daemon < 2 || step < 2 {
		b.Fatalf("cannot crash %s: daemon %d, step %d", node, daemon, step)
	}
	all := []int{daemon, step}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if env, _ := os.ReadFile(p + "/environ"); bytes.Contains(env, []byte("SLURMD_NODENAME="+node+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			all = append(all, pid)
		}
	}
	for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // stop all first, so that no process sees another one end
		for _, pid := range all {
			_ = unix.Kill(pid, signal)
		}
	}
	b.Cleanup(func() { b.Cluster("start") })
	down(b, node)
}

// Jobs on a node that crashed, losing all records, run again without spending a retry.
func TestRealJobsOfCrashedNodeRunAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until gpurun stops waiting for a record")
	}
	slurmSite.Meet(t, "", []Fate{{
		Job:  "{name: crashed, run: 'if [ ! -e up ]; then echo $(ps -o ppid= -p $PPID) $SLURMD_NODENAME >up; sleep 300; fi'}",
		Want: []state.Phase{state.Lost, state.Succeeded}, Free: true,
		Meet: func(b *Bench) {
			var outer int
			var node string
			if _, err := fmt.Sscan(b.Wait("up"), &outer, &node); err != nil {
				b.Fatal(err)
			}
			b.Until("the run sees that the job is running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["crashed"]) > 0 })
			crash(b, node, outer)
		},
	}}, Nothing, Nothing)
}

// If no node can meet a job's requests any more, the job ends with the reason and leaves the queue.
func TestRealUnsatisfiableJobEnds(t *testing.T) {
	feature := func(b *Bench, name string) {
		for _, n := range []string{"node1", "node2"} {
			b.Command("scontrol", "update", "nodename="+n, "availablefeatures="+name, "activefeatures="+name)
		}
	}
	slurmSite.Meet(t, ", constraint: fast", []Fate{{
		Job: "{name: a, gpus: 1, run: 'true'}", Want: []state.Phase{state.Failed}, Says: "slurm can never start it: BadConstraints",
		Meet: func(b *Bench) {
			b.JobID("a")
			feature(b, "")
			b.Until("the job has ended and left the queue", time.Minute, func() bool {
				return len(b.Facts(state.KindEnd)["a"]) > 0 && !strings.Contains(slurmSite.Left(), "PENDING")
			})
		},
	}}, func(b *Bench) {
		feature(b, "fast")
		b.Cleanup(func() { feature(b, "") })
		block(b)
	}, unblock)
}

// If a job is cancelled without a running gpurun, and then forgotten by Slurm, its end is unknown, so
// the next run submits it again.
func TestRealForgottenJobIsResubmitted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until Slurm forgets")
	}
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - {name: ran, gpus: 0, retry: 0, run: 'echo {name} >>journal; [ -e ran.up ] || { echo x >ran.up; sleep 300; }'}
  - {name: waited, gpus: 1, retry: 0, run: 'echo {name} >>journal'}
`)
	block(b)
	cmd, _ := b.Start("jobs.yaml")
	b.Wait("ran.up")
	ids := []string{b.JobID("ran"), b.JobID("waited")}
	b.Until("the run sees that ran is running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["ran"]) > 0 })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	b.Command(append([]string{"scancel"}, ids...)...)
	unblock(b)
	b.Until("Slurm has forgotten both jobs", 4*time.Minute, func() bool {
		return b.Command("squeue", "-h", "-t", "all", "-j", "1,"+strings.Join(ids, ","), "-o", "%i") == ""
	})
	b.Says(b.Run("jobs.yaml"), "2 of 2 done")
	for name, ends := range b.Facts(state.KindEnd) {
		if len(ends) != 2 || ends[0].Uncharged == "" || ends[1].State != state.Succeeded {
			t.Errorf("%s ended as %+v", name, ends)
		}
	}
	if ran := b.Read("journal"); ran != "ran\nran\nwaited" && ran != "ran\nwaited\nran" {
		t.Errorf("ran %q, want ran twice and waited once", ran)
	}
}

// If a controller accepts no more jobs, sbatch waits for minutes. gpurun reports this, and the jobs
// run once.
func TestRealFullControllerIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until sbatch retries")
	}
	b := slurmSite.New(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs: [{name: "j{i}", matrix: {i: "0..2"}, gpus: 0, run: 'echo {i} >>journal'}]
`)
	restart := func(most string) {
		b.Command("sed", "-i", "s/^MaxJobCount=.*/MaxJobCount="+most+"/", setting)
		b.Cluster("kill")
		b.Cluster("start")
	}
	b.Cleanup(func() {
		if t.Failed() {
			restart("50000")
		}
	})
	restart("3") // fewer jobs than the test submits
	cmd, out := b.Start("jobs.yaml")
	b.Until("status shows that Slurm does not answer", time.Minute, func() bool { return strings.Contains(b.Run("status"), "slurm does not answer (submit)") })
	restart("50000")
	_ = b.Finish(cmd)
	b.Says(out.String(), "3 of 3 done")
	if ran := strings.Fields(b.Read("journal")); len(ran) != 3 {
		t.Errorf("ran %q, want three jobs once each", ran)
	}
}
