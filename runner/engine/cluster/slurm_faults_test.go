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
	slurmFolder = "/var/lib/gpurun-test-slurm" // of testdata/cluster.sh
	setting     = "/etc/slurm/slurm.conf"
)

// down makes a node fail, as seen by Slurm.
func down(b *Bench, node string) {
	b.Command("scontrol", "update", "nodename="+node, "state=down", "reason=test")
	b.Cleanup(tend)
}

// crash ends all processes on a node at once, as when its power fails. outer is the process there
// that Slurm started.
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
	for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // no process sees another one end
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
		t.Skip("waits for a record that never comes")
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
			b.Until("it is known to run", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["crashed"]) > 0 })
			crash(b, node, outer)
		},
	}}, Nothing, Nothing)
}

// A job that no node can satisfy any more ends with the reason, and leaves the queue.
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
			b.Until("it was cancelled there", time.Minute, func() bool {
				return len(b.Facts(state.KindEnd)["a"]) > 0 && !strings.Contains(slurmSite.Left(), "PENDING")
			})
		},
	}}, func(b *Bench) {
		feature(b, "fast")
		b.Cleanup(func() { feature(b, "") })
		block(b)
	}, unblock)
}

// A job that was cancelled while no run was watching, and then forgotten, is submitted again,
// because its end is unknown.
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
	b.Until("it is known to run", time.Minute, func() bool { return len(b.Facts(state.KindRunning)["ran"]) > 0 })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	b.Command(append([]string{"scancel"}, ids...)...)
	unblock(b)
	b.Until("Slurm has forgotten them", 4*time.Minute, func() bool {
		return b.Command("squeue", "-h", "-t", "all", "-j", "1,"+strings.Join(ids, ","), "-o", "%i") == ""
	})
	b.Says(b.Run("jobs.yaml"), "2 of 2 done")
	for name, ends := range b.Facts(state.KindEnd) {
		if len(ends) != 2 || ends[0].Uncharged == "" || ends[1].State != state.Succeeded {
			t.Errorf("%s ended as %+v", name, ends)
		}
	}
	if ran := b.Read("journal"); ran != "ran\nran\nwaited" && ran != "ran\nwaited\nran" {
		t.Errorf("ran %q", ran)
	}
}

// A controller that accepts no more jobs makes sbatch wait for minutes. gpurun reports this, and
// submits once.
func TestRealFullControllerIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until sbatch tries again")
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
	b.Until("it says why it waits", time.Minute, func() bool { return strings.Contains(b.Run("status"), "slurm does not answer (submit)") })
	restart("50000")
	_ = b.Finish(cmd)
	b.Says(out.String(), "3 of 3 done")
	if ran := strings.Fields(b.Read("journal")); len(ran) != 3 {
		t.Errorf("ran %q", ran)
	}
}
