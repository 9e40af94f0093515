package cluster_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// again is the command of a job that will be displaced. On its second run it exits immediately.
const again = "'[ -e {name}.up ] && exit 0; echo $SLURM_JOB_ID >{name}.up; sleep 300'"

// slurmFates are fates of a running job, and of a job that no node can run.
var slurmFates = []Fate{
	{Job: `{name: hungry, memory: 60MiB, run: 'x=$(head -c 400000000 /dev/zero | tr "\0" x); echo ${#x}'}`, Want: []state.Phase{state.OOM}},
	{Job: "{name: huge, gpus: 9, run: 'true'}", Want: []state.Phase{state.Failed}, Says: "Requested node configuration is not available"},
	{
		Job: "{name: limited, timeout: 1h, run: 'echo x >limited.up; sleep 300'}", Want: []state.Phase{state.Timeout}, Says: "(the time limit of slurm)",
		Meet: func(b *Bench) {
			b.Wait("limited.up")
			id := b.JobID("limited") // Slurm records whole seconds, and the end must be after the start
			b.Until("Slurm accepts the end time", time.Minute, func() bool { return exec.Command("scontrol", "update", "jobid="+id, "endtime=now").Run() == nil })
		},
	},
	{
		Job: "{name: scancelled, retry: 3, run: 'echo x >scancelled.up; sleep 300'}", Want: []state.Phase{state.Cancelled}, Says: "by scancel",
		Meet: func(b *Bench) {
			b.Wait("scancelled.up")
			b.Command("scancel", b.JobID("scancelled"))
		},
	},
	{
		Job: "{name: requeued, run: " + again + "}", Want: []state.Phase{state.Lost, state.Succeeded}, Free: true,
		Meet: func(b *Bench) {
			b.Wait("requeued.up")
			id := b.JobID("requeued")
			b.Command("scontrol", "update", "jobid="+id, "requeue=1") // gpurun submits with --no-requeue
			b.Command("scontrol", "requeue", id)
		},
	},
	{
		Job: "{name: outer, retry: 1, run: " + again + "}", Want: []state.Phase{state.Lost, state.Succeeded}, Race: true,
		Meet: func(b *Bench) { // Slurm also ends its keeper, perhaps before it has recorded the end
			b.Kill("SLURM_JOB_ID="+b.Wait("outer.up"), func(args string) bool {
				return strings.Contains(args, "__task") && !strings.HasSuffix(args, "keep")
			})
		},
	},
}

// slurmWaiting are fates of a job that waits for GPUs.
var slurmWaiting = []Fate{
	{
		Job: "{name: held, gpus: 1, run: 'true'}", Want: []state.Phase{state.Succeeded},
		Meet: func(b *Bench) {
			id := b.JobID("held")
			b.Command("scontrol", "hold", id)
			b.Until("status shows that the job is held", time.Minute, func() bool { return strings.Contains(b.Run("status"), "JobHeld") })
			b.Command("scontrol", "release", id)
		},
	},
	{
		Job: "{name: pending, gpus: 1, run: 'true'}", Want: []state.Phase{state.Cancelled}, Says: "by scancel",
		Meet: func(b *Bench) {
			b.Command("scancel", b.JobID("pending"))
			b.Until("pending is cancelled", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["pending"]) > 0 })
		},
	},
	{
		Job: "{name: whole, gpus: 1, cpus: 2, retry: 2, run: 'true'}", Want: []state.Phase{state.Cancelled}, // in an array of its own
		Meet: func(b *Bench) {
			id, _, _ := strings.Cut(b.JobID("whole"), "_")
			b.Command("scancel", id)
		},
	},
	{
		Job: "{name: stopped, gpus: 1, run: 'true'}", Want: []state.Phase{state.Cancelled}, // without the other tasks of its array
		Meet: func(b *Bench) {
			b.JobID("stopped")
			b.Says(b.Run("stop", "stopped"), "cancelled: stopped")
		},
	},
	{
		Job: "{name: closed, gpus: 1, run: 'true'}", Want: []state.Phase{state.Succeeded},
		Meet: func(b *Bench) {
			b.Command(slurmSite.Shut[0]...)
			b.Until("status shows that the partition is down", time.Minute, func() bool { return strings.Contains(b.Run("status"), "PartitionDown") })
			b.Command(slurmSite.Shut[1]...)
		},
	},
}

// Jobs that are displaced through no fault of their own run again without spending a retry.
func TestRealDisplacedJobsSpendNoRetry(t *testing.T) {
	displaced := func(name string, how func(b *Bench, node string)) Fate {
		return Fate{
			Job:  "{name: " + name + ", gpus: 4, run: 'if [ ! -e {name}.up ]; then echo $SLURMD_NODENAME >{name}.up; sleep 300; fi'}",
			Want: []state.Phase{state.Lost, state.Succeeded}, Free: true,
			Meet: func(b *Bench) { how(b, b.Wait(name+".up")) },
		}
	}
	slurmSite.Meet(t, "", []Fate{
		displaced("preempted", func(b *Bench, node string) {
			b.Command("sbatch", "--parsable", "-o", "/dev/null", "-p", "urgent", "-w", node, "--gres=gpu:4", "--wrap", "sleep 1")
		}),
		displaced("down", func(b *Bench, node string) {
			b.Command("scontrol", "update", "nodename="+node, "state=down", "reason=test")
		}),
	}, Nothing, func(b *Bench) {
		b.Until("job down has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["down"]) > 0 })
		tend()
	})
}

// sbatch gets its SBATCH_ variables except SBATCH_WAIT, and a job gets the variables set by the
// site's TaskProlog.
func TestRealJobGetsSiteEnvironment(t *testing.T) {
	b := slurmSite.New(t, "settings: {engine: slurm, cluster: {poll: 1s}}\njobs: [{name: a, gpus: 0, run: 'echo $SLURM_JOB_PARTITION $ZE_AFFINITY_MASK $LD_LIBRARY_PATH $MINE >is'}]\n")
	for name, value := range map[string]string{"SBATCH_PARTITION": "urgent", "SBATCH_WAIT": "1", "LD_LIBRARY_PATH": "/mine", "MINE": "mine"} {
		b.Setenv(name, value)
	}
	b.Says(b.Run("jobs.yaml"), "1 of 1 done")
	if got := b.Read("is"); got != "urgent 0.1 /site:/mine mine" {
		t.Errorf("the job's variables are %q", got)
	}
}

// gpurun shows Slurm's expected start of an array's first task, whatever gpurun's time zone.
func TestRealExpectedStartIsShown(t *testing.T) {
	b := slurmSite.New(t, "settings: {engine: slurm, cluster: {poll: 1s}}\njobs: [{name: \"j{i}\", matrix: {i: 1..3}, gpus: 4, timeout: 1m, run: \"true\"}]\n")
	blockFor(b, "--time=30")
	b.Setenv("TZ", "Asia/Tokyo")
	cmd, _ := b.Start("jobs.yaml")
	said := ""
	few := func(n int) bool { // jobs that were ready later have another array, with its own first task
		arrays, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml/submits/*/answer"))
		return n > 0 && n <= len(arrays)
	}
	b.Until("status shows an estimate for the first task only", 3*time.Minute, func() bool {
		said = b.Run("status")
		return few(strings.Count(said, "; first expected start: "))
	})
	out := b.Run("status", "--json")
	_, at, _ := strings.Cut(out, `"expected": "`)
	at, _, _ = strings.Cut(at, `"`)
	if expected, err := time.Parse(time.RFC3339, at); !few(strings.Count(out, `"expected": "20`)) || err != nil || time.Until(expected).Abs() > time.Hour {
		t.Errorf("wrong estimate in status --json:\n%s", out)
	}
	t.Log(said)
	unblock(b)
	if err := b.Finish(cmd); err != nil {
		t.Error(err)
	}
}

// Jobs that Slurm refuses fail immediately, with one line for all of them: the reason and the fix.
// Jobs that it refuses only temporarily wait, and gpurun shows why.
func TestRealRefusedJobsFailWithReason(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a resubmission")
	}
	const file = "settings: {engine: slurm, cluster: {poll: 1s%s}}\njobs: [{name: \"j{i}\", matrix: {i: 1..3}, gpus: 0, retry: 2, run: 'true'}]\n"
	b := slurmSite.New(t, fmt.Sprintf(file, `, extra: ["--licenses=nope"]`))
	const why = "Invalid license specification (scontrol show licenses lists them)"
	out, _, _ := strings.Cut(b.Run("jobs.yaml"), "3 failed with the same error")
	if ends := b.Facts(state.KindEnd); len(ends["j1"]) != 1 || ends["j1"][0].Reason != "slurm: "+why || strings.Count(out, why) != 1 {
		t.Errorf("the jobs ended as %+v\n%s", ends, out)
	}
	b.Says(b.Run("plan", "jobs.yaml"), "slurm refuses them: "+why)

	b = slurmSite.New(t, strings.Replace(fmt.Sprintf(file, ""), "gpus: 0,", "gpus: 0, timeout: 30m,", 1))
	b.Cleanup(func() {
		Quietly("scontrol", "update", "partitionname=gpu", "state=up", "maxtime=unlimited")
	})
	b.Command("scontrol", "update", "partitionname=gpu", "maxtime=30")
	const long = "--time=33 (cluster.time, or timeout plus grace plus 2 minutes) exceeds the limit of 30 minutes on partition gpu; shorten timeout by 3m,"
	b.Says(b.Run("plan", "jobs.yaml"), "slurm refuses them: "+long)
	b.Says(b.Run("jobs.yaml"), "3 failed with the same error: slurm: "+long)

	b = slurmSite.New(t, fmt.Sprintf(file, ""))
	b.Command("scontrol", "update", "partitionname=gpu", "state=drain")
	const drained = "Required partition not available (inactive or drain)"
	b.Says(b.Run("plan", "jobs.yaml"), "slurm accepts no more jobs like these now, so gpurun would retry: "+drained)
	cmd, said := b.Start("jobs.yaml")
	b.Until("status shows why the jobs wait", time.Minute, func() bool {
		return strings.Count(b.Run("status"), "slurm accepts no more jobs like these now: "+drained) > 0
	})
	b.Command("scontrol", "update", "partitionname=gpu", "state=up")
	_ = b.Finish(cmd)
	b.Says(said.String(), "some jobs wait, because slurm accepts no more jobs like these now: "+drained)
	b.Says(said.String(), "3 of 3 done")
}
