package cluster_test

import (
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

// MultiSeed checks that an example runs unchanged on the cluster, and that runs on this host and on
// the cluster share one ledger.
func (s *Site) MultiSeed(t *testing.T) {
	text, err := os.ReadFile("../../../jobs/multi_seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := s.New(t, strings.Replace(string(text), "work_dir: ..", "work_dir: .", 1))
	b.Command("cp", "-r", "../../../jobs", b.Dir)
	b.Says(b.Run("--engine", s.Engine, "jobs.yaml"), "24 of 24 done")
	b.Says(b.Run("--engine", s.Engine, "jobs.yaml"), "24 of 24 done")
	b.Says(b.Run("plan", "jobs.yaml"), "0 would run")

	b = s.New(t, `jobs: [{name: "j{i}", matrix: {i: "0..7"}, gpus: 0, run: "echo {i}"}]`)
	b.Says(b.Run("--only", "j[0-3]", "jobs.yaml"), "4 of 4 done")
	b.Says(b.Run("--engine", s.Engine, "jobs.yaml"), "8 of 8 done")
	b.Says(b.Run("jobs.yaml"), "8 of 8 done")
}

// Pruned checks that a pruned job leaves the cluster, does not count as failed, and does not run
// again.
func (s *Site) Pruned(t *testing.T) {
	b := s.New(t, "settings: "+s.settings("1s")+`
jobs:
  - name: "t-{lr}"
    matrix: {lr: [3, 2, 1]}
    gpus: 0
    run: 'echo start >>ran-{lr}; echo acc=0.{lr}; echo acc=0.{lr}; [ {lr} != 1 ] || exec sleep 1000'
    metrics: {acc: {log: 'acc=([0-9.]+)', goal: max}}
    prune: {metric: acc, among: [lr], after: 2, min: 2}
`)
	b.Says(b.Run("jobs.yaml"), "3 of 3 done")
	f := b.Facts(state.KindEnd)["t-1"]
	if len(f) != 1 || f[0].State != state.Pruned || !strings.HasPrefix(f[0].Reason, "best acc was 0.1 up to step 2") {
		t.Fatalf("t-1 ended as %+v", f)
	}
	b.Until("the cluster is empty", time.Minute, func() bool { return s.left() == 0 })
	b.Says(b.Run("jobs.yaml"), "3 of 3 done")
	b.Says(b.Run("status"), "1 pruned: t-1")
	if ran := b.Read("ran-1"); ran != "start" {
		t.Errorf("t-1 ran again: %q", ran)
	}
}

// History checks that a job's node, cluster ID and queue time are recorded, and that its GPU hours
// count from its beginning to its end.
func (s *Site) History(t *testing.T) {
	b := s.New(t, "settings: "+s.settings("1s")+"\njobs: [{name: a, gpus: 2, run: sleep 2}]\n")
	s.Before(b)
	cmd, out := b.Start("jobs.yaml")
	id := b.JobID("a")
	b.Says(b.Run("history", "a"), id)
	released := time.Now()
	s.After(b)
	_ = b.Finish(cmd)
	f := b.Facts(state.KindEnd)["a"]
	if len(f) != 1 || f[0].State != state.Succeeded || f[0].JobID != id || f[0].Host == "" || len(f[0].GPUs) != 2 || f[0].Began.IsZero() {
		t.Fatalf("a ended as %+v\n%s", f, out)
	}
	node, ran := f[0].Host, f[0].Time.Sub(f[0].Began)
	if queued := f[0].Began.Sub(b.Facts(state.KindStart)["a"][0].Time); queued <= 0 || ran < 2*time.Second {
		t.Errorf("queued for %v, ran for %v, want more than 0, and at least 2s", queued, ran)
	}
	if early := released.Sub(f[0].Began); early > 100*time.Millisecond { // the kernel counts in ticks
		t.Errorf("the ledger has the beginning %v before the job could begin", early)
	}
	b.Says(strings.Join(strings.Fields(b.Run("history", "a")), " "), id+" "+node+" 20")
	b.Says(b.Run("history", "a", "--json"), `"host": "`+node+`"`)
	b.Says(b.Run("history", "--json"), fmt.Sprintf(`"gpu_seconds": %d.`, int(2*ran.Seconds())))
}

// Told is a cluster's record of a past task.
type Told struct {
	Begun, Over time.Time
	Node        string
}

// Sweep checks that the ledger, the jobs' own journal and the cluster agree on where and when each
// job of a sweep ran. Each job must run within its times in the ledger, and these within the cluster's.
func (s *Site) Sweep(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	const n = 100
	b := s.New(t, fmt.Sprintf("settings: %s\njobs: [{name: \"j{i}\", matrix: {i: \"1..%d\"}, gpus: 0, run: 'date +%%s.%%N >{name}.began; sleep 1; date +%%s.%%N >{name}.over'}]\n", s.settings("1s"), n))
	b.Says(b.Run("jobs.yaml"), fmt.Sprintf("%d of %[1]d done", n))
	theirs, ends, checked := s.Told(b), b.Facts(state.KindEnd), 0
	var own, others time.Duration
	for i := 1; i <= n; i++ {
		name := fmt.Sprint("j", i)
		at := func(file string) time.Time {
			f, err := strconv.ParseFloat(b.Read(name+file), 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.UnixMilli(int64(1000 * f))
		}
		if len(ends[name]) != 1 || ends[name][0].JobID == "" {
			t.Fatalf("%s ended as %+v", name, ends[name])
		}
		f := ends[name][0]
		own = max(own, f.Began.Sub(at(".began")), at(".over").Sub(f.Time))
		if is, known := theirs[f.JobID]; known {
			if checked++; is.Node != f.Host || is.Begun.IsZero() {
				t.Errorf("%s was on %s since %v, the ledger has %s since %v", f.JobID, is.Node, is.Begun, f.Host, f.Began)
			}
			others = max(others, is.Begun.Sub(f.Began), f.Time.Sub(is.Over))
		}
	}
	t.Logf("jobs exceed their times in the ledger by %v at most, and those exceed the times of %d jobs in the cluster's records by %v", own, checked, others)
	if own > time.Second || others > 2*time.Second || checked < n/2 { // the cluster records whole seconds
		t.Error("the records disagree, or the cluster has too few")
	}
}

// Thousands checks that thousands of jobs are submitted in few calls and listed in few rows, and
// measures what they cost while they wait. No job may start in this test, because the nodes share the
// controller's cores.
func (s *Site) Thousands(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	const n = 5000
	b := s.New(t, fmt.Sprintf("settings: %s\njobs: [{name: \"j{i}\", matrix: {i: \"0..%d\"}, gpus: 0, run: \"true\"}]\n", s.settings("2s"), n-1))
	b.Command(s.Shut[0]...)
	b.Cleanup(func() { Quietly(s.Shut[1]...) })
	controller := s.PID(b)
	began, was := time.Now(), spent(controller)
	cmd, _ := b.Start("jobs.yaml")
	b.Until("all jobs are submitted", 2*time.Minute, func() bool { // parsing with Facts would keep a core busy
		return strings.Count(b.Read(".gpurun/jobs.yaml/ledger.jsonl"), `"kind":"queued"`) >= n
	})
	last, queued := began, b.Facts(state.KindQueued)
	if len(queued) != n {
		t.Fatalf("%d jobs are queued, want %d", len(queued), n)
	}
	for _, q := range queued {
		if q[0].JobID == "" {
			t.Fatalf("%+v has no job ID", q[0])
		}
		if q[0].Time.After(last) {
			last = q[0].Time
		}
	}
	calls, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml/submits/*/answer"))
	t.Logf("submitted %d jobs in %.2f s, %d calls; CPU: gpurun %v, %s %v", n, last.Sub(began).Seconds(), len(calls), spent(cmd.Process.Pid), s.Engine, spent(controller)-was)
	if len(calls) > n/50 {
		t.Errorf("%d calls for %d jobs", len(calls), n)
	}
	u, c := spent(cmd.Process.Pid), spent(controller)
	time.Sleep(10 * time.Second)
	t.Logf("while they wait, a second costs gpurun %v and %s %v of CPU, with a list every 2 s", (spent(cmd.Process.Pid)-u)/10, s.Engine, (spent(controller)-c)/10)
	began = time.Now()
	rows, err := s.Dialect.List("root").Run()
	t.Logf("a list: %v, %d rows", time.Since(began).Round(time.Millisecond), len(rows))
	if err != nil || len(rows) > n/50 {
		t.Errorf("a list has %d rows for %d similar jobs: %v", len(rows), n, err)
	}
	began = time.Now()
	_ = cmd.Process.Signal(os.Interrupt)
	b.Until("the run is stopping", time.Minute, func() bool { return Exited(cmd) || strings.Contains(b.Run("status"), "stop") })
	_ = cmd.Process.Signal(os.Interrupt)
	_ = b.Finish(cmd)
	t.Logf("withdrawn in %.1f s", time.Since(began).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.Dir, ".gpurun/jobs.yaml/run.log"))
			t.Logf("left: %.2000s\nrun.log: %.2000s", s.Left(), log)
		}
	})
	b.Until("the cluster has none left", time.Minute, func() bool { return s.Left() == "" })
}

// ControllerKilled crashes the controller while jobs begin and end, so it may forget or repeat events.
// Every job must succeed once, and its attempts must not overlap.
func (s *Site) ControllerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("a task that the cluster has forgotten counts as lost only after two minutes of silence")
	}
	n := 20 * *Crashes
	b := s.New(t, Journalled(s.settings("2s"), n, "gpus: 1", "1"))
	out := b.Crash(*Crashes, n, s.Tend, "jobs.yaml")
	again := b.Once(n)
	why := map[string]int{}
	for _, ends := range b.Facts(state.KindEnd) {
		for _, e := range ends {
			if e.State != state.Succeeded {
				why[e.Uncharged]++
			}
		}
	}
	t.Logf("%d crashes of the controller, %d jobs: %d additional begins; reasons for resubmission: %v", *Crashes, n, again, why)
	if t.Failed() {
		t.Log(out)
	}
}

// Ghost checks that gpurun resubmits a job that the cluster lists as running but no node has begun.
// The first submission must not run the job when its node recovers.
func (s *Site) Ghost(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for more than two minutes until the job counts as not started")
	}
	b := s.New(t, "")
	b.Write("node", fmt.Sprintf("#!/bin/sh\ncd %q\n[ -e a ] && mkdir hung && { trap 'echo late >>journal; exec %[2]q \"$@\"' TERM; sleep 600 & wait; }\nexec %[2]q \"$@\"\n", b.Dir, b.Binary))
	if err := os.Chmod(filepath.Join(b.Dir, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Write("jobs.yaml", fmt.Sprintf(`
settings: {engine: %s, cluster: {poll: 1s, gpurun: %q}}
defaults: {gpus: 0, retry: 0}
jobs:
  - {name: a, run: 'echo a >>journal; echo x >a'}
  - {name: b, needs: a, run: 'echo b >>journal'}
`, s.Engine, filepath.Join(b.Dir, "node")))
	began := time.Now()
	out := b.Run("jobs.yaml")
	t.Logf("the run took %.0f s", time.Since(began).Seconds())
	b.Until("the first submission has ended", time.Minute, func() bool { return s.Left() == "" })
	ends := b.Facts(state.KindEnd)["b"]
	if ran := b.Read("journal"); ran != "a\nlate\nb" && ran != "a\nb\nlate" || len(ends) != 2 ||
		!strings.Contains(ends[0].Uncharged, s.Engine+" listed it as running on ") || ends[1].State != state.Succeeded {
		t.Errorf("ran %q; b ended as %+v\n%s", ran, ends, out)
	}
}

// RunnerKilled checks that after a run was killed at any moment, the next one finds its jobs again,
// even just after a command to hold, release, throttle or withdraw some. Jobs that the killed run
// held must run, too.
func (s *Site) RunnerKilled(t *testing.T) {
	n := 4 * kills()
	for _, tt := range []struct {
		name, limit string
		meanwhile   [][]string
	}{
		{name: "at any moment"},
		{
			name: "steered", limit: "max_concurrent: 3, ",
			meanwhile: [][]string{{"pause"}, {"set", "max_concurrent=8"}, {"pause", "j[1-3]*"}, {"stop", "--drain"}, {"set", "max_concurrent=1"}, {"resume"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := s.New(t, Journalled(strings.Replace(s.settings("2s"), "{", "{"+tt.limit, 1), n, "gpus: 0", "0.5"))
			out := b.KillRunners(kills(), tt.meanwhile, "jobs.yaml")
			if again := b.Once(n); again > 0 {
				t.Errorf("%d additional begins, want 0", again)
			}
			b.Cleanup(func() {
				if t.Failed() {
					t.Logf("left: %s\n%s", s.Left(), out)
				}
			})
			b.Until("the cluster has none left", time.Minute, func() bool { return s.Left() == "" }) // the run learns of an end earlier than the cluster
			t.Logf("%d kills of the runner, %d jobs", kills(), n)
		})
	}
}

// ControllerGone checks that the run records ends while the controller is down, and submits the
// remaining jobs when it is back.
func (s *Site) ControllerGone(t *testing.T) {
	b := s.New(t, "settings: "+s.settings("1s")+`
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
	b.Until("a has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) == 1 })
	b.Until("status shows the outage", time.Minute, func() bool {
		said := b.Run("status")
		return strings.Contains(said, s.Engine+": ") || strings.Contains(said, s.Engine+" does not answer")
	})
	if !testing.Short() {
		time.Sleep(*Outage - time.Since(began))
	}
	b.Cluster("start")
	_ = b.Finish(cmd)
	if again := strings.Count(out.String(), "running jobs continue"); again > 2 { // for the list and for the submission of b
		t.Errorf("reported the outage %d times, want at most 2:\n%s", again, out)
	}
	b.Says(out.String(), "2 of 2 done")
	if ran := b.Read("journal"); ran != "a\nb" {
		t.Errorf("ran %q", ran)
	}
}

// Hangs checks that if the controller or the cluster's commands hang, status reports it, and Ctrl-C
// ends the run.
func (s *Site) Hangs(t *testing.T) {
	for _, tt := range []struct {
		name string
		hang func(b *Bench)
	}{
		{"controller", func(b *Bench) {
			pid := s.PID(b)
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
		}},
		{"commands", func(b *Bench) { b.Write("hang", "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.name == "controller" {
				t.Skip("gpurun sees the same as in the other test, but after the cluster's own timeouts")
			}
			b := s.New(t, "settings: "+s.settings("1s")+`
jobs:
  - {name: a, gpus: 0, run: 'echo x >up; until [ -e go ]; do sleep 0.1; done'}
  - {name: b, needs: a, gpus: 0, run: "true"}
`)
			for _, c := range s.Commands {
				b.First(c, "[ -e hang ] && { while [ -e hang ]; do sleep 0.1; done; exit 1; }") // after the hang, the command fails without an effect
			}
			cmd, out := b.Start("jobs.yaml")
			b.Wait("up")
			tt.hang(b)
			b.Write("go", "") // a ends, and the submission of b hangs
			b.Until("status shows that the cluster does not answer", time.Minute, func() bool { return strings.Contains(b.Run("status"), s.Engine+" does not answer") })
			began := time.Now()
			_ = cmd.Process.Signal(unix.SIGINT)
			_ = cmd.Process.Signal(unix.SIGINT)
			b.Until("a has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)["a"]) == 1 })
			_ = cmd.Process.Signal(unix.SIGINT)
			b.Until("the run has ended", time.Minute, func() bool { return Exited(cmd) })
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the run ended %v after Ctrl-C, want at most 20s\n%s", d, out)
			}
			_ = os.Remove(filepath.Join(b.Dir, "hang"))
		})
	}
}

// TakenBack checks that withdrawn tasks leave even a busy cluster, and that a run reports tasks that
// it could not withdraw, with a command that cancels them.
func (s *Site) TakenBack(t *testing.T) {
	submit, cancel := s.Commands[0], s.Commands[2]
	const fails = `echo x >>asked; echo "the controller is busy" >&2; exit 1`
	for _, tt := range []struct {
		name          string
		command, does string // shell command to run first
		when          string // stop the run when this file exists; "" for when all jobs are queued
		leave         bool   // send two more signals when the run waits only for the cluster
		says          string
	}{
		{name: "immediately"},
		{name: "after an error", command: cancel, does: "touch asked; [ $(wc -l <asked) -lt 2 ] && { " + fails + "; }"},
		{name: "during a submission", command: submit, does: "echo x >asked; sleep 2", when: "asked"},
		{
			name: "interrupted", command: cancel, does: "[ -e now ] || sleep 30", leave: true,
			says: s.Engine + " has not confirmed the cancellation of 40 jobs of this batch (no response yet)",
		},
		{name: "without success", command: cancel, does: "[ -e now ] || { " + fails + "; }", says: s.Engine + " has not confirmed the cancellation of 40 jobs of this batch (" + cancel + ": the controller is busy)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := s.New(t, "settings: "+s.settings("1s")+`
jobs:
  - {name: "a{i}", matrix: {i: 1..20}, gpus: 0, run: "true"}
  - {name: "b{i}", matrix: {i: 1..20}, gpus: 0, timeout: 1h, run: "true"}
`)
			b.Command(s.Shut[0]...)
			b.Cleanup(func() { Quietly(s.Shut[1]...) })
			b.First(tt.command, tt.does)
			cmd, out := b.Start("jobs.yaml")
			if tt.when != "" {
				b.Wait(tt.when)
			} else {
				b.Until("all jobs are queued", time.Minute, func() bool { return len(b.Facts(state.KindQueued)) == 40 })
			}
			began, limit := time.Now(), 25*time.Second // shorter than the limit of commands
			_ = cmd.Process.Signal(unix.SIGINT)
			if tt.leave {
				b.Until("the run is over", time.Minute, func() bool { return len(b.Facts(state.KindOver)) > 0 })
				began, limit = time.Now(), 5*time.Second
				_ = cmd.Process.Signal(unix.SIGINT)
				_ = cmd.Process.Signal(unix.SIGTERM)
			}
			_ = b.Finish(cmd)
			if took := time.Since(began); took > limit {
				t.Errorf("the run ended after %v, want at most %v", took, limit)
			}
			if tt.says != "" {
				b.Says(out.String(), tt.says)
				b.Write("now", "")
				_, byHand, _ := strings.Cut(out.String(), "to cancel them: ")
				byHand, _, _ = strings.Cut(byHand, "\n")
				b.Command("sh", "-c", byHand)
			} else if strings.Contains(out.String(), "cancel them") {
				t.Errorf("the run reports unconfirmed cancellations:\n%s", out)
			}
			if tt.when != "" {
				b.Until("the cluster has accepted the submission", time.Minute, func() bool {
					answers, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml/submits/*/answer"))
					return len(answers) > 0 && b.Read(strings.TrimPrefix(answers[0], b.Dir)) != ""
				})
			}
			b.Until("the cluster has none left", time.Minute, func() bool { return s.Left() == "" })
		})
	}
}

// Lagging checks that every job runs once even if the runner sees the nodes' files late and is killed
// repeatedly. The runner must not trust the cluster's report before it sees the record.
func (s *Site) Lagging(t *testing.T) {
	n := 2 * kills()
	b := s.New(t, Journalled(s.settings("1s"), n, "gpus: 0", "0.5")+"  - {name: fails, gpus: 0, run: exit 3}\n")
	b.Lagging()
	out := b.KillRunners(kills(), nil, "jobs.yaml")
	if again := b.Once(n); again > 0 {
		t.Errorf("%d additional begins, want 0", again)
	}
	for _, e := range b.Facts(state.KindEnd)["fails"] {
		if e.Uncharged == "" && (e.State != state.Failed || e.ExitCode == nil || *e.ExitCode != 3) { // an uncharged attempt was never submitted, because its run was killed before
			t.Errorf("fails ended as %+v", e)
		}
	}
	t.Logf("%d kills of the runner, %d jobs, files seen up to %v late", kills(), n, *Lag)
	if t.Failed() {
		t.Log(out)
	}
}

// LateRecord checks that gpurun does not trust the cluster's report of an end while it may not see the
// job's record yet. A failed job must not count as lost, and a successful one must not run again if
// its node fails.
func (s *Site) LateRecord(t *testing.T) {
	const job = `{name: %s, gpus: 0, retry: 0, run: 'echo %[1]s >>journal; echo $(ps -o ppid= -p $PPID) ${SLURMD_NODENAME:-here} >%[1]s.up; until [ -e go ]; do sleep 0.1; done; exit %d'}`
	b := s.New(t, "settings: "+s.settings("1s")+"\njobs:\n  - "+fmt.Sprintf(job, "fails", 3)+"\n  - "+fmt.Sprintf(job, "done", 0)+"\n")
	b.Lagging()
	cmd, out := b.Start("jobs.yaml")
	b.Wait("fails.up")
	b.Until("the run sees that both jobs are running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)) == 2 })
	var outer int
	var node string
	if _, err := fmt.Sscan(b.Wait("done.up"), &outer, &node); err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(outer, unix.SIGSTOP) // so the task is still running for the cluster when its node fails
	b.Cleanup(func() { _ = unix.Kill(outer, unix.SIGCONT) })
	b.Write("go", "")
	id := b.Facts(state.KindStart)["done"][0].UniID
	b.Until("done has a record, and the task of fails has ended", time.Minute, func() bool {
		return strings.Contains(b.Read(".gpurun/jobs.yaml/attempts/"+id+"/status"), `"state":"ended","uni_id":"`+id) && s.left() == 1
	})
	s.Fail(b, node)
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)
	if f, d := ends["fails"], ends["done"]; len(f) != 1 || f[0].State != state.Failed || len(d) != 1 || d[0].State != state.Succeeded {
		t.Errorf("fails ended as %+v, done as %+v\n%s", f, d, out)
	}
	if ran := strings.Fields(b.Read("journal")); len(ran) != 2 {
		t.Errorf("ran %q", ran)
	}
}

// LateOutput checks that gpurun waits for an output that becomes visible only some time after its
// job has ended.
func (s *Site) LateOutput(t *testing.T) {
	b := s.New(t, "settings: "+s.settings("1s")+"\njobs: [{name: a, gpus: 0, outputs: ['made/*'], run: 'true'}]\n")
	made := filepath.Join(b.Dir, "made")
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil || os.Mkdir(made, 0o755) != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	cmd, out := b.Start("jobs.yaml")
	b.Until("the job has ended on its node", time.Minute, func() bool {
		q := b.Facts(state.KindStart)["a"]
		return len(q) > 0 && strings.Contains(b.Read(".gpurun/jobs.yaml/attempts/"+q[0].UniID+"/status"), `"state":"ended","uni_id":"`+q[0].UniID)
	})
	if _, err := unix.InotifyAddWatch(watch, made, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	b.Until("the run has looked for the output", time.Minute, func() bool {
		n, _ := unix.Read(watch, make([]byte, 4096))
		return n > 0
	})
	b.Write("made/out", "")
	_ = b.Finish(cmd)
	b.Says(out.String(), "1 of 1 done")
}

// spent returns the CPU time of a process and of its ended children.
func spent(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f, ticks := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])), 0
	for _, i := range []int{11, 12, 13, 14} {
		n, _ := strconv.Atoi(f[i])
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
