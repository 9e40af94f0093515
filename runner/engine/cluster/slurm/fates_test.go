package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/cluster/clustertest"
	"gpurun/state"
)

// A fate is what a job meets, and how its attempts end in the ledger.
type fate struct {
	job  string // as in the job file
	meet func(b *clustertest.Bench)
	want []state.Phase
	free bool   // the first attempt spends no retry
	says string // the reason of the last end
}

// name returns the name of a fate's job.
func (f *fate) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.job, "{name: "), ",")
	return name
}

// again is the command of a job that is to be displaced: it ends at once the second time.
const again = "'[ -e {name}.up ] && exit 0; echo $SLURM_JOB_ID >{name}.up; sleep 300'"

// fates are the rows of the table of verdicts that a job without GPUs can meet.
var fates = []fate{
	{job: "{name: exits, run: exit 3}", want: []state.Phase{state.Failed}},
	{job: `{name: hungry, memory: 60MiB, run: 'x=$(head -c 400000000 /dev/zero | tr "\0" x); echo ${#x}'}`, want: []state.Phase{state.OOM}},
	{job: "{name: late, timeout: 3s, run: sleep 300}", want: []state.Phase{state.Timeout}},
	{job: "{name: huge, gpus: 9, run: 'true'}", want: []state.Phase{state.Failed}, says: "Requested node configuration is not available"},
	{
		job: "{name: limited, run: 'echo x >limited.up; sleep 300'}", want: []state.Phase{state.Timeout},
		meet: func(b *clustertest.Bench) {
			b.Wait("limited.up")
			b.Command("scontrol", "update", "jobid="+b.JobID("limited"), "endtime=now")
		},
	},
	{
		job: "{name: scancelled, retry: 3, run: 'echo x >scancelled.up; sleep 300'}", want: []state.Phase{state.Cancelled},
		meet: func(b *clustertest.Bench) {
			b.Wait("scancelled.up")
			b.Command("scancel", b.JobID("scancelled"))
		},
	},
	{
		job: "{name: stopped, run: 'echo x >stopped.up; sleep 300'}", want: []state.Phase{state.Cancelled},
		meet: func(b *clustertest.Bench) {
			b.Wait("stopped.up")
			b.Says(b.Run("stop", "stopped"), "cancelled: stopped")
		},
	},
	{
		job: "{name: requeued, run: " + again + "}", want: []state.Phase{state.Lost, state.Succeeded}, free: true,
		meet: func(b *clustertest.Bench) {
			b.Wait("requeued.up")
			id := b.JobID("requeued")
			b.Command("scontrol", "update", "jobid="+id, "requeue=1") // gpurun forbids it
			b.Command("scontrol", "requeue", id)
		},
	},
	{
		job: "{name: outer, retry: 1, run: " + again + "}", want: []state.Phase{state.Lost, state.Succeeded},
		meet: func(b *clustertest.Bench) { // Slurm ends its keeper with it
			b.Kill("SLURM_JOB_ID="+b.Wait("outer.up"), func(args string) bool {
				return strings.Contains(args, "__task") && !strings.HasSuffix(args, "keep")
			})
		},
	},
	{
		job: "{name: keeper, run: 'echo $PPID >keeper.up; sleep 300'}", want: []state.Phase{state.Lost}, says: "its keeper was killed",
		meet: func(b *clustertest.Bench) {
			if pid, err := strconv.Atoi(b.Wait("keeper.up")); err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
				b.Errorf("cannot kill the keeper: %v", err)
			}
		},
	},
}

// waiting are those that a job meets while it waits for GPUs.
var waiting = []fate{
	{
		job: "{name: held, gpus: 1, run: 'true'}", want: []state.Phase{state.Succeeded},
		meet: func(b *clustertest.Bench) {
			id := b.JobID("held")
			b.Command("scontrol", "hold", id)
			b.Until("the reason is shown", 30*time.Second, func() bool { return strings.Contains(b.Run("status"), "JobHeld") })
			b.Command("scontrol", "release", id)
		},
	},
	{
		job: "{name: pending, gpus: 1, run: 'true'}", want: []state.Phase{state.Cancelled},
		meet: func(b *clustertest.Bench) {
			b.Command("scancel", b.JobID("pending"))
			b.Until("pending is cancelled", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["pending"]) > 0 })
		},
	},
}

// meet runs the jobs of some fates, has them meet these, and checks how they end.
func meet(t *testing.T, all []fate, before, after func(b *clustertest.Bench)) {
	t.Helper()
	jobs := ""
	for _, f := range all {
		jobs += "  - " + f.job + "\n"
	}
	b := newBench(t, "settings: {engine: slurm, grace: 2s, cluster: {poll: 2s}}\ndefaults: {gpus: 0, retry: 0}\njobs:\n"+jobs)
	before(b)
	cmd, out := b.Start("jobs.yaml")
	for _, f := range all {
		if f.meet != nil {
			f.meet(b)
		}
	}
	after(b)
	end := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer end.Stop()
	_ = cmd.Wait()
	ends := b.Facts(state.KindEnd)
	for _, f := range all {
		got := ends[f.name()]
		same := len(got) == len(f.want)
		for i := range f.want {
			same = same && got[i].State == f.want[i] && (got[i].Uncharged != "") == (f.free && i == 0)
		}
		if !same || !strings.Contains(got[len(got)-1].Reason, f.says) {
			t.Errorf("%s ended as %+v, want %v, and that it says %q", f.name(), got, f.want, f.says)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func nothing(*clustertest.Bench) {}

// Each job meets its own fate, by the real daemons.
func TestRealStates(t *testing.T) { meet(t, fates, nothing, nothing) }

func TestRealWaiting(t *testing.T) { meet(t, waiting, block, unblock) }

// Those that lose their place through no fault of their own run again, without spending a retry.
func TestRealDisplaced(t *testing.T) {
	displaced := func(name string, how func(b *clustertest.Bench, node string)) fate {
		return fate{
			job:  "{name: " + name + ", gpus: 4, run: 'if [ ! -e {name}.up ]; then echo $SLURMD_NODENAME >{name}.up; sleep 300; fi'}",
			want: []state.Phase{state.Lost, state.Succeeded}, free: true,
			meet: func(b *clustertest.Bench) { how(b, b.Wait(name+".up")) },
		}
	}
	meet(t, []fate{
		displaced("preempted", func(b *clustertest.Bench, node string) {
			b.Command("sbatch", "--parsable", "-o", "/dev/null", "-p", "urgent", "-w", node, "--gres=gpu:4", "--wrap", "sleep 1")
		}),
		displaced("down", func(b *clustertest.Bench, node string) {
			b.Command("scontrol", "update", "nodename="+node, "state=down", "reason=test")
		}),
	}, nothing, func(b *clustertest.Bench) {
		b.Until("the job of the node that is down is over", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["down"]) > 0 })
		tend()
	})
}

// A node that does not see the state folder, or gpurun in it, is named with the cure.
func TestRealNotShared(t *testing.T) {
	for _, tt := range []struct{ missing, says string }{
		{"submits/*", "does not see the state folder: keep the job file, or --state-dir, on a file system that all nodes share"},
		{"bin/*/gpurun", "does not see gpurun in the state folder: keep that on a file system that all nodes share, or set cluster: {gpurun: PATH}"},
	} {
		t.Run(filepath.Base(tt.missing), func(t *testing.T) {
			hide := func(b *clustertest.Bench) {
				b.JobID("a")
				found, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml", tt.missing))
				if len(found) != 1 {
					b.Fatalf("%s: found %q", tt.missing, found)
				}
				if err := os.Rename(found[0], found[0]+".hidden"); err != nil {
					b.Fatal(err)
				}
			}
			meet(t, []fate{{job: "{name: a, gpus: 1, run: 'true'}", meet: hide, want: []state.Phase{state.Failed}, says: tt.says}}, block, unblock)
		})
	}
}

// What ends while the controller is gone is recorded at once, and what could not be submitted
// meanwhile is when it is back.
func TestRealControllerGone(t *testing.T) {
	b := newBench(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - {name: a, gpus: 0, run: 'echo a >>journal; echo x >up; until [ -e go ]; do sleep 0.1; done'}
  - {name: b, needs: a, gpus: 0, run: 'echo b >>journal'}
`)
	cmd, out := b.Start("jobs.yaml")
	b.Wait("up")
	b.Cluster("kill")
	b.Cleanup(func() { b.Cluster("start") })
	began := time.Now()
	b.Write("go", "")
	b.Until("a has ended", 20*time.Second, func() bool { return len(b.Facts(state.KindEnd)["a"]) == 1 })
	b.Until("it says what is wrong", time.Minute, func() bool { return strings.Contains(b.Run("status"), "slurm: ") })
	time.Sleep(*clustertest.Outage - time.Since(began))
	b.Cluster("start")
	_ = cmd.Wait()
	b.Says(out.String(), "2 succeeded")
	if ran := b.Read("journal"); ran != "a\nb" {
		t.Errorf("ran %q", ran)
	}
}

// While the controller, or a command of it, hangs, the view goes on and says so, and Ctrl-C
// answers.
func TestRealHangs(t *testing.T) {
	for _, tt := range []struct {
		name string
		hang func(b *clustertest.Bench)
	}{
		{"controller", func(b *clustertest.Bench) {
			pid, err := strconv.Atoi(strings.TrimSpace(b.Command("cat", "/var/lib/gpurun-test-slurm/run/slurmctld.pid")))
			if err != nil || unix.Kill(pid, unix.SIGSTOP) != nil {
				b.Fatalf("cannot stop the controller: %v", err)
			}
			b.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
		}},
		{"commands", func(b *clustertest.Bench) { b.Write("hang", "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - {name: a, gpus: 0, run: 'echo x >up; until [ -e go ]; do sleep 0.1; done'}
  - {name: b, needs: a, gpus: 0, run: "true"}
`)
			for _, c := range []string{"sbatch", "squeue", "scancel"} { // Slurm's, but they may hang first
				b.Write(c, fmt.Sprintf("#!/bin/sh\n[ -e %s/hang ] && sleep 60\nexec /usr/bin/%s \"$@\"\n", b.Dir, c))
				if err := os.Chmod(filepath.Join(b.Dir, c), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", b.Dir+":"+os.Getenv("PATH"))
			cmd, out := b.Start("jobs.yaml")
			b.Wait("up")
			tt.hang(b)
			b.Write("go", "") // b is submitted into the void
			b.Until("it says why it waits", time.Minute, func() bool { return strings.Contains(b.Run("status"), "slurm does not answer") })
			began := time.Now()
			_ = cmd.Process.Signal(unix.SIGINT)
			_ = cmd.Process.Signal(unix.SIGINT)
			b.Until("a has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) == 1 })
			_ = cmd.Process.Signal(unix.SIGINT)
			b.Until("it has ended", time.Minute, func() bool { return clustertest.Exited(cmd) })
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("Ctrl-C took %v\n%s", d, out)
			}
			_ = os.Remove(filepath.Join(b.Dir, "hang"))
		})
	}
}
