package clustertest

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster"
)

// Quota checks that what else the user has in the cluster counts, and that the names are those
// that he chose.
func (s *Site) Quota(t *testing.T) {
	b := s.New(t, `
settings: {engine: `+s.Engine+`, cluster: {poll: 2s, max_gpus_total: 3, name_prefix: lab}}
jobs: [{name: "j{i}", matrix: {i: "0..3"}, run: 'echo {i} >>journal; until [ -e go ]; do sleep 0.1; done'}]
`)
	s.Take(b, "2")
	cmd, out := b.Start("jobs.yaml")
	b.Until("one has begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 1 })
	b.Until("it says why the others wait", time.Minute, func() bool {
		return strings.Contains(b.Run("status"), "your jobs on "+s.Engine+" ask for 3 GPUs and cluster.max_gpus_total is 3")
	})
	n, err := cluster.Asking(s.Dialect, "root")
	if err != nil || n != 3 || len(strings.Fields(b.Read("journal"))) != 1 {
		t.Errorf("%v: jobs ask for %d GPUs, want 3; %d have begun, want 1", err, n, len(strings.Fields(b.Read("journal"))))
	}
	rows, err := s.Dialect.Rows(b.Command(s.Dialect.List("root").Args...))
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	if all := strings.Join(names, " "); err != nil || strings.Count(all, "lab-jobs-") != 1 {
		t.Errorf("the cluster has %q, %v", names, err)
	}
	s.Free(b)
	b.Until("those that fit have begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 3 })
	b.Write("go", "")
	_ = b.Finish(cmd)
	b.Says(out.String(), "4 succeeded")
	if ran := len(strings.Fields(b.Read("journal"))); ran != 4 {
		t.Errorf("%d ran, want 4", ran)
	}
}

// Exec checks that a command runs on GPUs of the cluster as it is, with its input and the status
// that it ends with, once the quota lets it.
func (s *Site) Exec(t *testing.T) {
	b := s.New(t, "jobs: []")
	s.Take(b, "1")
	args := []string{"exec", "--engine", s.Engine, "--poll", "1s", "-g", "2", "--max-gpus"}
	name := "$" + s.JobName
	cmd, out := b.Start(append(args, "4", "--", "sh", "-c", "set -- $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); echo \""+name+"  has\" $#; exit 7")...)
	if _ = b.Finish(cmd); cmd.ProcessState.ExitCode() != 7 || !strings.Contains(out.String(), "gr-exec-sh  has 2\n") { // srun says more
		t.Errorf("exit status %d, %q", cmd.ProcessState.ExitCode(), out)
	}
	shell := *b
	shell.Binary = "/bin/sh"
	cmd, out = shell.Start("-c", "echo 'it ran' | "+b.Binary+" "+strings.Join(args, " ")+" 2 -- cat 2>said")
	b.Until("it says why it waits", time.Minute, func() bool { // the one before may still be listed
		return strings.Contains(b.Read("said"), "waiting: your jobs on "+s.Engine+" ask for 1 GPU and --max-gpus is 2")
	})
	s.Free(b)
	if err := b.Finish(cmd); err != nil || out.String() != "it ran\n" {
		t.Errorf("%v: %q", err, out)
	}
}
