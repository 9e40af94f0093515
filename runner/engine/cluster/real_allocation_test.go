package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// Allocation checks that a run inside a cluster job with two GPUs and one CPU stays within these and
// within the job's time. The same command must resume interrupted jobs without spending a retry: in
// another cluster job, and on a host that cannot see the processes of the earlier ones.
func (s *Site) Allocation(t *testing.T) {
	b := s.New(t, `
settings: {engine: local, grace: 1s}
defaults: {retry: 0}
jobs:
  - {name: "j{i}", matrix: {i: "0..5"}, run: 'echo $CUDA_VISIBLE_DEVICES >>journal'}
  - {name: slow, gpus: 0, run: 'true'}
  - {name: long, gpus: 0, priority: -1, run: 'echo $$ $PPID >long.new; mv long.new long.up; until [ -e go ]; do sleep 0.1; done'}
`)
	b.Drive("count=4\n")
	b.Setenv("HOME", b.Dir)
	b.Setenv("GPURUN_CLAIMS_DIR", b.Dir)
	b.Write("wide.yaml", "jobs: [{name: wide, gpus: 0, cpus: 2, run: 'true'}]")
	b.Write("script", "#!/bin/sh\ncd '"+b.Dir+"' && exec "+b.Binary+" jobs.yaml\n")
	b.Write("small", "#!/bin/sh\ncd '"+b.Dir+"' && exec "+b.Binary+" wide.yaml\n")
	in := func(script string, args ...string) (id, out string) {
		out = filepath.Join(b.Dir, script+".out")
		id = strings.TrimSpace(b.Command(slices.Concat(s.Submit, args, []string{"-o", out, filepath.Join(b.Dir, script)})...))
		return id, out
	}
	over := func() { b.Until("the cluster job is over", 4*time.Minute, func() bool { return s.left() == 0 }) }
	said := func(out string) string { text, _ := os.ReadFile(out); return string(text) }

	// The cluster job has one CPU.
	_, out := in("small")
	b.Until("a job with two CPUs is refused", time.Minute, func() bool { return strings.Contains(said(out), "never run") })
	b.Says(said(out), "cpus: 2, but this machine has 1")
	over()

	// The run does not start jobs that would exceed the cluster job's time.
	b.Says(b.Run("--only", "slow", "jobs.yaml"), "1 of 1 done")
	ledger := filepath.Join(b.Dir, ".gpurun/jobs.yaml/ledger.jsonl")
	text, _ := os.ReadFile(ledger)
	if err := os.WriteFile(ledger, regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAll(text, []byte(`"seconds":9000`)), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Write("script", "#!/bin/sh\ncd '"+b.Dir+"' && exec "+b.Binary+" --force jobs.yaml\n")
	id, out := in("script", s.Limit...)
	b.Wait("long.up")
	b.Until("the short jobs have run", time.Minute, func() bool {
		if strings.Contains(said(out), "stopping running jobs") {
			b.Fatalf("the cluster warned the run before the short jobs had run:\n%s", said(out))
		}
		return len(strings.Fields(b.Read("journal"))) == 6
	})
	if testing.Short() && s.Warn != nil {
		b.Command(append(slices.Clone(s.Warn), id)...)
	}
	b.Until("the run reports how to run the rest", 4*time.Minute, func() bool { return strings.Contains(said(out), "run the rest with") })
	over()
	if all := strings.Fields(b.Read("journal")); len(all) != 6 || slices.ContainsFunc(all, func(gpu string) bool { return !strings.HasSuffix(gpu, "0") && !strings.HasSuffix(gpu, "1") }) {
		t.Errorf("the jobs ran on GPUs %q, want 6 jobs on GPUs 0 and 1", all)
	}
	b.Says(said(out), "slow was not started: similar jobs take 2h30m, and "+s.Engine+" job ")
	b.Says(said(out), "stopping running jobs")

	// In the next cluster job, the test kills the runner, and the keeper must end the job.
	b.Write("script", "#!/bin/sh\ncd '"+b.Dir+"' && exec "+b.Binary+" jobs.yaml\n")
	up := func() (job, runner int) {
		_ = os.Remove(filepath.Join(b.Dir, "long.up"))
		in("script")
		f := strings.Fields(b.Wait("long.up"))
		job, _ = strconv.Atoi(f[0])
		keeper, _ := strconv.Atoi(f[1])
		return job, parent(keeper)
	}
	job, runner := up()
	if err := unix.Kill(runner, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	over()
	b.Until("the running job has ended", time.Minute, func() bool { return unix.Kill(job, 0) != nil })

	// In the last cluster job, the test kills the runner and the keeper, so there is no record.
	job, runner = up()
	keeper := parent(job)
	if err := unix.Kill(keeper, unix.SIGKILL); err != nil || unix.Kill(runner, unix.SIGKILL) != nil {
		t.Fatal(err)
	}
	over()
	_ = unix.Kill(job, unix.SIGKILL) // if the cluster does not

	// The same command must resume even where it cannot see processes of the cluster jobs.
	b.Write("go", "")
	cmd := exec.Command("unshare", "-p", "--fork", "--mount-proc", b.Binary, "jobs.yaml")
	cmd.Dir = b.Dir
	last, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, last)
	}
	var ends []state.Phase
	for _, e := range b.Facts(state.KindEnd)["long"] {
		ends = append(ends, e.State)
	}
	if !slices.Equal(ends, []state.Phase{state.Interrupted, state.Interrupted, state.Interrupted, state.Succeeded}) {
		t.Errorf("long ended as %v:\n%s", ends, last)
	}
	if all := strings.Fields(b.Read("journal")); len(all) != 6 {
		t.Errorf("%d short jobs have run, want 6", len(all))
	}
}

// parent returns the parent of a process.
func parent(pid int) int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(text), ") ")
	n, _ := strconv.Atoi(strings.Fields(after + " 0 0")[1])
	return n
}
