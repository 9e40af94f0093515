package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/cluster/gridengine"
	"gpurun/state"
)

// The tests TestReal* run gpurun with the Grid Engine started by testdata/cluster.sh. To run them,
// use "make engines". For longer runs with more kills, see docs/internals/reliability.md.

const sgeFolder = "/var/lib/gpurun-test-sge" // as in testdata/cluster.sh

var sgeSite = Site{
	Engine: "sge", Folder: "gridengine", Dialect: gridengine.Dialect{},
	End:      []string{"qdel", "-u", "root"},
	Listed:   []string{"qstat", "-u", "root"},
	Master:   sgeFolder + "/run/sge_qmaster.pid",
	Commands: []string{"qsub", "qstat", "qdel"},
	Shut:     [2][]string{{"qmod", "-d", "gpu.q"}, {"qmod", "-e", "gpu.q"}},
	Tend: func() { // a failed start disables the queue, and a killed test may leave it disabled
		Quietly("qmod", "-cq", "gpu.q")
		Quietly("qmod", "-e", "gpu.q")
	},
	JobName: "JOB_NAME",
	Suspend: [2][]string{{"qmod", "-sj"}, {"qmod", "-usj"}},
	Take: func(b *Bench, gpus string) {
		b.Command("qsub", "-b", "y", "-o", "/dev/null", "-j", "y", "-N", "blocker", "-l", "gpu="+gpus, "sleep", "300")
	},
	Free:   func(b *Bench) { b.Command("qdel", "blocker") },
	Before: shut, After: open,
	Fail: func(b *Bench, _ string) { // Grid Engine then reports that it rescheduled the job, although the job has ended
		Quietly("qmod", "-f", "-rj", b.JobID("done"))
	},
	Told:   accounts,
	Submit: []string{"qsub", "-terse", "-V", "-j", "y", "-S", "/bin/sh", "-l", "gpu=2"},
	Limit:  []string{"-notify", "-l", "h_rt=20"},
	Keys:   ", memory_resource: h_vmem", Running: sgeFates, Queued: sgeWaiting,
	// After each crash of the master, its queues need half a minute to return.
	Long: []string{"TestRealKilledControllerRunsJobsOnce/sge", "TestRealJobsSurviveMissingController/sge", "TestRealWithdrawnTasksLeaveTheCluster/sge", "TestRealHangingControllerDoesNotBlockView/sge", "TestRealRunStaysWithinItsAllocation/sge", "TestRealLateRecordIsAwaited/sge"},
}

func init() { sgeSite.Still = sgeStill } // sgeStill refers to sgeSite

func shut(b *Bench) { b.Command("qmod", "-d", "gpu.q") }
func open(b *Bench) { b.Command("qmod", "-e", "gpu.q") }

// A job's own cluster keys apply only to that job.
func TestRealJobKeysOnGridEngine(t *testing.T) {
	b := sgeSite.New(t, `
settings: {engine: sge, cluster: {poll: 1s, queue: none.q}}
defaults: {gpus: 0, run: 'qstat -j $JOB_ID | grep -E "^(hard_queue_list|hard resource_list)" >{name}.is'}
jobs: [{name: a, cluster: {queue: gpu.q, exclude: other, time: 7m}}]
`)
	b.Says(b.Run("jobs.yaml"), "1 of 1 done")
	b.Says(b.Read("a.is"), "hostname=!(other),h_rt=420")
	b.Says(b.Read("a.is"), "gpu.q")
}

// up is the command of a job that creates NAME.up when it begins.
const up = "'echo x >{name}.up; sleep 300'"

// sgeFates are fates of a running job, and of a job that no host can run.
var sgeFates = []Fate{
	{Job: "{name: special, retry: 2, run: exit 99}", Want: []state.Phase{state.Failed, state.Failed, state.Failed}}, // Grid Engine would rerun it forever
	{Job: "{name: erring, run: exit 100}", Want: []state.Phase{state.Failed}},
	{Job: "{name: huge, gpus: 9, run: 'true'}", Want: []state.Phase{state.Failed}, Says: "sge: (-l gpu=9) cannot run at host"},
	{Job: "{name: bounded, memory: 100MiB, run: 'true'}", Want: []state.Phase{state.Succeeded}},
	{
		Job: "{name: qdeleted, retry: 3, run: " + up + "}", Want: []state.Phase{state.Cancelled}, Says: "by qdel",
		Meet: func(b *Bench) {
			b.Wait("qdeleted.up")
			b.Command("qdel", b.JobID("qdeleted"))
		},
	},
	{
		Job: "{name: stubborn, retry: 3, run: 'trap : TERM; echo x >{name}.up; while :; do sleep 1; done'}", Want: []state.Phase{state.Cancelled},
		Meet: func(b *Bench) {
			b.Wait("stubborn.up")
			b.Command("qdel", b.JobID("stubborn"))
		},
	},
	{
		Job: "{name: outer, retry: 3, run: 'ps -o ppid= -p $PPID >outer.up; sleep 300'}", Want: []state.Phase{state.Cancelled}, // as if by qdel
		Meet: func(b *Bench) {
			if pid, err := strconv.Atoi(b.Wait("outer.up")); err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
				b.Errorf("cannot kill the outer process: %v", err)
			}
		},
	},
}

// A rescheduled job runs again without spending a retry, unless its host mistakes the second start
// for the first and lets the job continue. gpurun submits with -r n, but an admin can force
// rescheduling.
func TestRealRescheduledJobSpendsNoRetry(t *testing.T) {
	b := sgeSite.New(t, "settings: {engine: sge, cluster: {poll: 1s}}\njobs: [{name: a, gpus: 0, retry: 0, run: 'echo x >>ran; until [ -e go ]; do sleep 0.1; done'}]\n")
	cmd, out := b.Start("jobs.yaml")
	b.Wait("ran")
	id := b.JobID("a")
	job, _, _ := strings.Cut(id, ".")
	b.Until("the job is rescheduled and running", time.Minute, func() bool {
		past, _ := exec.Command("qacct", "-j", job).Output()
		if !strings.Contains(string(past), "rescheduling") {
			Quietly("qmod", "-f", "-rj", id)
			return false
		}
		return strings.Contains(sgeSite.Left(), " Rr ") || len(strings.Fields(b.Read("ran"))) == 2
	})
	b.Write("go", "")
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)["a"]
	last := len(ends) - 1
	if last < 0 || last > 1 || ends[last].State != state.Succeeded || last == 1 && ends[0].Uncharged == "" || len(strings.Fields(b.Read("ran"))) != last+1 {
		t.Errorf("a ended as %+v; ran has %q\n%s", ends, b.Read("ran"), out)
	}
}

// A job that Grid Engine requeues does not count as cancelled.
func TestRealRequeuedJobIsNotCancelled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the job to be requeued and for its attempt to end")
	}
	b := sgeSite.New(t, "settings: {engine: sge, cluster: {poll: 1s}}\njobs: [{name: a, gpus: 0, retry: 0, run: 'echo x >>ran; until [ -e go ]; do sleep 0.1; done'}]\n")
	cmd, out := b.Start("jobs.yaml")
	b.Wait("ran")
	id := b.JobID("a")
	b.Cleanup(func() { Quietly(sgeSite.Shut[1]...) })
	shut(b)
	b.Until("the job is queued again", time.Minute, func() bool {
		Quietly("qmod", "-f", "-rj", id)
		return strings.Contains(sgeSite.Left(), " Rq ")
	})
	b.Until("its first attempt has ended", 2*time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) > 0 })
	open(b)
	b.Write("go", "")
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)["a"]
	if len(ends) != 2 || ends[0].Uncharged != "sge requeued it" || ends[1].State != state.Succeeded || len(strings.Fields(b.Read("ran"))) != 2 {
		t.Errorf("a ended as %+v; ran has %q\n%s", ends, b.Read("ran"), out)
	}
}

// The limit is the site's: gpurun does not request it from a timeout.
func TestRealSiteTimeLimitEndsJob(t *testing.T) {
	sgeSite.Meet(t, `, extra: ["-l h_rt=3"]`, []Fate{{Job: "{name: limited, retry: 0, run: " + up + "}", Want: []state.Phase{state.Timeout}, Says: "(the time limit of sge)"}}, Nothing, Nothing)
}

// sgeStill are fates of a job that is ended while it is suspended.
var sgeStill = []Fate{
	{
		Job: "{name: stopped, run: 'trap \"echo x >saved; exit 0\" TERM; echo $$ >{name}.up; while :; do sleep 0.1; done'}", Want: []state.Phase{state.Cancelled},
		Meet: func(b *Bench) {
			sgeSite.standStill(b, "stopped")
			b.Says(b.Run("stop", "stopped"), "cancelled: stopped")
			b.Wait("saved")
		},
	},
	{
		Job: "{name: qdeleted, run: 'echo $$ >{name}.up; sleep 300'}", Want: []state.Phase{state.Cancelled},
		Meet: func(b *Bench) {
			sgeSite.standStill(b, "qdeleted")
			b.Command("qdel", b.JobID("qdeleted"))
		},
	},
}

// sgeWaiting are fates of a waiting job.
var sgeWaiting = []Fate{
	{
		Job: "{name: held, run: 'true'}", Want: []state.Phase{state.Succeeded},
		Meet: func(b *Bench) {
			id := b.JobID("held")
			b.Command("qhold", id)
			b.Until("status shows that the job is held", time.Minute, func() bool { return strings.Contains(b.Run("status"), "held") })
			b.Command("qrls", id)
		},
	},
	{
		Job: "{name: pending, retry: 2, run: 'true'}", Want: []state.Phase{state.Cancelled},
		Meet: func(b *Bench) {
			b.Command("qdel", b.JobID("pending"))
			b.Until("pending is cancelled", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["pending"]) > 0 })
		},
	},
}

// A job that Grid Engine has put into an error state ends with the reason, and leaves the queue.
func TestRealJobInErrorStateEnds(t *testing.T) {
	broken := filepath.Join(sgeFolder, "run/broken") // makes the prolog fail
	breakIt := func(b *Bench) {
		b.Cleanup(func() { _ = os.Remove(broken) })
		if err := os.WriteFile(broken, nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	gone := func(b *Bench) {
		b.Until("the job has ended and left the queue", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) > 0 && sgeSite.Left() == "" })
	}
	f := Fate{Job: "{name: a, retry: 0, run: 'true'}", Want: []state.Phase{state.Failed}, Says: "sge can never start it: exit_status of prolog = 100"}
	sgeSite.Meet(t, "", []Fate{f}, breakIt, gone)
}

// accounts returns the cluster's records of past tasks.
func accounts(b *Bench) map[string]Told {
	all, job := map[string]Told{}, map[string]string{}
	b.Until("the accounting has all 100 tasks", time.Minute, func() bool {
		for line := range strings.Lines(b.Command("qacct", "-o", "root", "-j")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if job[name] = strings.TrimSpace(value); name != "end_time" {
				continue
			}
			begun, _ := time.ParseInLocation("Mon Jan 2 15:04:05 2006", job["start_time"], time.Local)
			over, _ := time.ParseInLocation("Mon Jan 2 15:04:05 2006", job["end_time"], time.Local)
			all[job["jobnumber"]+"."+job["taskid"]] = Told{Begun: begun, Over: over, Node: job["hostname"]}
		}
		return len(all) >= 100
	})
	return all
}
