package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// newCluster returns a world with three jobs on a cluster: the engine chooses the GPUs and has a queue.
func newCluster(t *testing.T) *world {
	w := newWorld(t)
	w.opts.Elsewhere, w.opts.Queues = true, true
	for _, name := range []string{"a", "b", "c"} {
		w.job(name, "true", jobspec.Spec{Request: gpu.Request{Min: 2, Max: 2}, Retry: jobspec.Retry{Max: 0}}, "")
	}
	return w
}

func (w *world) counts(t *testing.T, want map[state.Phase]int) {
	t.Helper()
	s := w.core.Snapshot(w.now)
	for p, n := range want {
		if s.Counts[p] != n {
			t.Errorf("%d jobs are %s, want %d; all counts: %v", s.Counts[p], p, n, s.Counts)
		}
	}
}

// An attempt is queued from its launch until the cluster starts it on a host with GPUs. The ledger has
// the cluster's job ID once, and the next run restores all of this.
func TestQueuedUntilRunning(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	w.counts(t, map[state.Phase]int{state.Queued: 3, state.Running: 0})
	a, b := w.attempt("a"), w.attempt("b")
	w.send(Queued{UniID: a, JobID: "17_0"})
	w.send(Queued{UniID: a, JobID: "17_0", Reason: "Priority"})
	if note := w.core.Snapshot(w.now).Jobs[0].Wait.Text; note != "queued 17_0: Priority" {
		t.Errorf("a waits for %q", note)
	}
	w.send(Queued{UniID: b, JobID: "17_1", Reason: "Resources"})
	if why := w.core.Why(w.now, w.id("b")); why != "queued 17_1: Resources" {
		t.Errorf("b waits for %q", why)
	}
	w.wait(time.Minute)
	w.send(Started{UniID: a, PID: 7, Host: "node1", Grant: &gpu.Grant{Indices: []int{2, 3}}})
	w.counts(t, map[state.Phase]int{state.Queued: 2, state.Running: 1})
	j := w.core.Snapshot(w.now).Jobs[0]
	v := j.Attempt
	if schema.Value(v.Host) != "node1" || len(v.GPUs) != 2 || v.GPUs[0].Index != 2 || !v.Started.Equal(w.now.Wall) || j.State != state.Running {
		t.Errorf("got %+v", v)
	}
	if w.core.Phase(w.id("a")) != state.Running || w.core.Phase(w.id("b")) != state.Queued {
		t.Errorf("a is %s, b is %s", w.core.Phase(w.id("a")), w.core.Phase(w.id("b")))
	}
	ids := map[string]int{}
	for _, r := range w.ledger {
		if r.Fact.Kind == state.KindQueued {
			ids[r.Fact.JobID]++
		}
	}
	if len(ids) != 2 || ids["17_0"] != 1 || ids["17_1"] != 1 {
		t.Errorf("the ledger has the job IDs %v, want each once", ids)
	}

	w.open() // another run
	w.send(Began{})
	for _, id := range []string{b, w.attempt("c")} {
		w.send(Queued{UniID: id, JobID: "17_1", Reason: "Resources"})
	}
	w.send(Started{UniID: a, PID: 7, Host: "node1", Grant: &gpu.Grant{Indices: []int{2, 3}}})
	w.counts(t, map[state.Phase]int{state.Queued: 2, state.Running: 1})
	if v := w.core.Snapshot(w.now).Jobs[0].Attempt; schema.Value(v.Host) != "node1" {
		t.Errorf("in the next run: got %+v", v)
	}
}

// newGroup returns a cluster whose jobs differ only in parameters, once the run has begun.
func newGroup(t *testing.T, breaker int) *world {
	w := newCluster(t)
	w.b.Settings.Breaker = breaker
	for i := range w.b.Jobs {
		w.b.Jobs[i].Spec.Template = 1
	}
	w.open()
	w.send(Began{})
	return w
}

// Failures on one node may be that node's fault, so twice as many are needed.
func TestOneNodeDoesNotHoldGroup(t *testing.T) {
	w := newGroup(t, 1)
	for i, name := range []string{"a", "b"} {
		if n := len(w.core.Snapshot(w.now).Live.Held); n > 0 {
			t.Errorf("after %d failures on one node, the other jobs are held", i)
		}
		w.send(Started{UniID: w.attempt(name), PID: 7 + i, Host: "node1", Grant: &gpu.Grant{Indices: []int{i, i + 2}}})
		w.exit(name, Ended{End: state.End{ExitCode: 1}, Line: "no data"})
	}
	w.exit("c", Ended{End: state.End{ExitCode: -1, Why: state.WhyInterrupted, Lost: true, Void: true}}) // withdrawn
	if held := w.core.Snapshot(w.now).Live.Held; len(held) != 1 || held[0].Attempts != 2 {
		t.Errorf("got %+v, want one group after 2 attempts", held)
	}
}

// The reason why a group is held must not mix up GPUs of several nodes, which have the same
// numbers.
func TestHeldGroupNamesNoGPUsOfNodes(t *testing.T) {
	w := newGroup(t, 2)
	for i, name := range []string{"a", "b"} {
		w.send(Started{UniID: w.attempt(name), PID: 7 + i, Host: fmt.Sprint("node", i), Grant: &gpu.Grant{Indices: []int{0, 1}}})
		w.exit(name, Ended{End: state.End{ExitCode: 1}, Line: "no data"})
	}
	w.exit("c", Ended{End: state.End{ExitCode: -1, Why: state.WhyInterrupted, Lost: true, Void: true}}) // withdrawn
	held := w.core.Snapshot(w.now).Live.Held
	if len(held) != 1 || held[0].Attempts != 2 || len(held[0].GPUs) != 0 {
		t.Errorf("got %+v, want one group after 2 attempts, without GPUs", held)
	}
}

// An attempt suspended by the cluster is shown as suspended, and does not stall.
func TestSuspendedAttemptDoesNotStall(t *testing.T) {
	w := newCluster(t)
	w.b.Jobs[0].Spec.Stall = jobspec.Stall{Output: 10 * time.Minute, Kill: true}
	w.open()
	w.send(Began{})
	a := w.attempt("a")
	w.send(Started{UniID: a, PID: 7, Host: "node1", Grant: &gpu.Grant{Indices: []int{2, 3}}})
	says := func(want string) {
		t.Helper()
		j := w.core.Jobs(w.now)[w.id("a")]
		if note := schema.Value(w.core.Snapshot(w.now).Jobs[0].Wait).Text; note != want || (j.Wait != nil) != (want != "") || j.Wait != nil && j.Wait.Text != want || j.State != state.Running {
			t.Errorf("the snapshot says %q, the job waits for %+v and is %s, want %q", note, j.Wait, j.State, want)
		}
	}
	says("")
	w.does[a] = "rests"
	w.send(Suspended{a, true})
	says("suspended by the cluster")
	if w.wait(time.Hour); w.core.live.byID[a].stop != "" {
		t.Error("a suspended attempt was stopped as stalled")
	}
	w.send(Suspended{a, false})
	says("")
	if w.wait(time.Hour); w.core.live.byID[a].stop != state.WhyStalled {
		t.Error("a resumed attempt without output was not stopped as stalled")
	}
	w.send(Suspended{"of another", true}) // must be ignored
}

// max_gpus_total and max_submitted limit submitted jobs that have not ended. max_gpus limits
// running jobs, which the engine enforces.
func TestSubmissionLimits(t *testing.T) {
	for _, tt := range []struct {
		gpus, total, open, want int
	}{{-1, 0, 0, 3}, {2, 0, 0, 3}, {4, 9, 0, 3}, {-1, 0, 2, 2}, {-1, 4, 0, 2}, {5, 3, 0, 1}} {
		w := newCluster(t)
		w.b.Settings.MaxGPUs, w.opts.MaxTotal, w.opts.MaxOpen = tt.gpus, tt.total, tt.open
		w.open()
		w.send(Began{})
		w.counts(t, map[state.Phase]int{state.Queued: tt.want, state.Pending: 3 - tt.want})
		w.exit("a", Ended{})
		w.counts(t, map[state.Phase]int{state.Queued: min(tt.want, 2), state.Succeeded: 1})
	}
	w := newCluster(t)
	w.b.Settings.MaxGPUs, w.opts.MaxTotal = 4, 1
	w.open()
	w.send(Began{})
	w.counts(t, map[state.Phase]int{state.Failed: 3})
	if end := w.ledger[0].Fact; end.Reason != "needs 2 GPUs, but cluster.max_gpus_total is 1" {
		t.Errorf("got the reason %q", end.Reason)
	}
}

// A job that does not fit into max_gpus_total is overtaken by smaller ones until its patience is over.
// Jobs without GPUs are not affected.
func TestSubmissionLimitIsKept(t *testing.T) {
	w := newCluster(t)
	w.opts.MaxTotal, w.b.Settings.Patience = 3, time.Hour
	small := jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1}}
	w.job("d", "true", small, "")
	w.job("e", "true", small, "")
	w.job("f", "true", jobspec.Spec{CPUs: 1}, "", "d")
	w.open()
	w.send(Began{})
	says := func(job, want string) {
		t.Helper()
		if got := w.core.Why(w.now, w.id(job)); got != want {
			t.Errorf("%s waits for %q, want %q", job, got, want)
		}
	}
	w.counts(t, map[state.Phase]int{state.Queued: 2}) // a and d
	says("b", "submitted jobs already request 3 GPUs, and cluster.max_gpus_total is 3")
	w.wait(2 * time.Hour)
	w.exit("d", Ended{})
	says("e", "cluster.max_gpus_total is kept for b")
	w.counts(t, map[state.Phase]int{state.Queued: 2}) // a and f
	w.exit("a", Ended{})
	w.counts(t, map[state.Phase]int{state.Queued: 3}) // b, e and f
}

// The cluster's estimate is shown as such until it has passed.
func TestClusterEstimateIsShownUntilPast(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	a, at := w.attempt("a"), w.now.Wall
	for _, tt := range []struct {
		expected time.Time
		want     string
	}{
		{time.Time{}, ""},
		{at.Add(time.Minute), "; expected to start at " + at.Add(time.Minute).Local().Format("15:04")},
		{at.Add(48 * time.Hour), "; expected to start at " + at.Add(48*time.Hour).Local().Format("2 Jan 15:04")},
		{at, ""},
	} {
		w.send(Queued{UniID: a, JobID: "17_0", Reason: "Resources", Expected: tt.expected})
		wait, note := w.core.Wait(w.now, int(w.id("a"))), w.core.Snapshot(w.now).Jobs[0].Wait.Text
		if want := "queued 17_0: Resources" + tt.want; wait.Text != want || note != want {
			t.Errorf("%v: a waits for %q, the snapshot says %q, want %q", tt.expected, wait.Text, note, want)
		}
		if (wait.Expected != nil) != (tt.want != "") || wait.Expected != nil && !wait.Expected.Equal(tt.expected) {
			t.Errorf("%v: got the expected start %v", tt.expected, wait.Expected)
		}
	}
}

// An end that the job did not cause spends no retry.
func TestUnchargedEndSpendsNoRetry(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	w.exit("a", Ended{End: state.End{ExitCode: -1, Lost: true, Uncharged: "node1 went down"}})
	w.counts(t, map[state.Phase]int{state.Queued: 3})
	last := w.ledger[len(w.ledger)-2]
	if last.Fact.State != state.Lost || last.Fact.Uncharged != "node1 went down" {
		t.Errorf("got the end %+v", last.Fact)
	}
}

// A preemption never spends a retry. An end that may be the cluster's fault is excused only a few times.
func TestPreemptionSpendsNoRetry(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	for range 2 * maxExcused {
		w.exit("a", Ended{End: state.End{ExitCode: -1, Lost: true, Uncharged: "slurm: PREEMPTED on node1", Displaced: true}})
	}
	w.counts(t, map[state.Phase]int{state.Queued: 3})
	for range maxExcused {
		w.exit("a", Ended{End: state.End{ExitCode: -1, Lost: true, Uncharged: "slurm forgot it"}})
	}
	w.counts(t, map[state.Phase]int{state.Queued: 3})
	w.exit("a", Ended{End: state.End{ExitCode: -1, Lost: true, Uncharged: "slurm forgot it"}})
	w.counts(t, map[state.Phase]int{state.Queued: 2, state.Lost: 1})
}

// max_wait counts while no submitted job is running. Then all of them are withdrawn.
func TestMaxWaitWithdrawsQueuedJobs(t *testing.T) {
	w := newCluster(t)
	w.b.Settings.MaxWait = time.Hour
	w.open()
	w.send(Began{})
	w.wait(50 * time.Minute)
	w.send(Started{UniID: w.attempt("a"), PID: 7, Host: "node1"})
	w.wait(2 * time.Hour) // while a is running
	w.exit("a", Ended{})
	w.wait(59 * time.Minute)
	w.counts(t, map[state.Phase]int{state.Queued: 2, state.Succeeded: 1})
	w.wait(2 * time.Minute)
	for _, name := range []string{"b", "c"} {
		w.exit(name, Ended{End: state.End{ExitCode: -1, Why: state.WhyInterrupted, Lost: true, Void: true}})
	}
	w.counts(t, map[state.Phase]int{state.Interrupted: 2, state.Succeeded: 1})
	if w.done == nil || !w.done.GaveUp {
		t.Errorf("got %+v, want a run that gave up", w.done)
	}
}

// BenchmarkJobsQueued measures a view of queued jobs, which must take time in proportion to their number.
func BenchmarkJobsQueued(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b)
			w.opts.Elsewhere, w.opts.Queues = true, true
			for i := range n {
				w.job(fmt.Sprint("j", i), "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1}}, "")
			}
			w.open()
			w.send(Began{})
			for b.Loop() {
				if jobs := w.core.Jobs(w.now); jobs[n-1].Wait == nil || jobs[n-1].Wait.Code != schema.WaitCluster {
					b.Fatalf("the last job: %+v", jobs[n-1])
				}
			}
		})
	}
}

// The last answer about attempts of an earlier run may be an uncharged end. It must be recorded as such,
// although the run begins only after it.
func TestExcuseOfEarlierRunIsRecorded(t *testing.T) {
	w := newCluster(t)
	w.open()
	w.send(Began{})
	a, b, c := w.attempt("a"), w.attempt("b"), w.attempt("c")
	w.open()
	w.send(Began{})
	w.send(Queued{UniID: b})
	w.send(Queued{UniID: c})
	w.send(Ended{UniID: a, End: state.End{ExitCode: -1, Lost: true, Void: true, Uncharged: "slurm does not know it", Err: "slurm does not know it"}})
	ends := 0
	for _, r := range w.ledger {
		if f := r.Fact; f.Kind == state.KindEnd {
			if ends++; f.UniID != a || f.Uncharged != "slurm does not know it" {
				t.Errorf("got the end %+v", f)
			}
		}
	}
	if ends != 1 {
		t.Errorf("got %d ends, want 1", ends)
	}
	if w.core.Phase(w.id("a")) != state.Queued {
		t.Errorf("a is %s", w.core.Phase(w.id("a")))
	}
}

// The reason for an end caused by the cluster must name the cluster, not gpurun.
func TestStopNamesTheCluster(t *testing.T) {
	for why, want := range map[string]string{state.WhyCancelled: "by scancel", state.WhyTimeout: "stopped after 1s (by scancel)"} {
		w := newCluster(t)
		w.open()
		w.send(Began{})
		w.exit("a", Ended{End: state.End{Elapsed: time.Second, ExitCode: -1, Why: why, Err: "by scancel"}})
		i := slices.IndexFunc(w.ledger, func(r Record) bool { return r.Fact.Kind == state.KindEnd })
		if i < 0 || w.ledger[i].Fact.Reason != want {
			t.Errorf("%s: want the reason %q, got the ledger %+v", why, want, w.ledger)
		}
	}
}
