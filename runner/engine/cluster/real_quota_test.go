package cluster_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/cluster"
)

// Quota checks that the user's other jobs in the cluster count, and that array names begin with
// name_prefix.
func (s *Site) Quota(t *testing.T) {
	b := s.New(t, `
settings: {engine: `+s.Engine+`, cluster: {poll: 2s, max_gpus_total: 3, name_prefix: lab}}
jobs: [{name: "j{i}", matrix: {i: "0..3"}, run: 'echo {i} >>journal; until [ -e go ]; do sleep 0.1; done'}]
`)
	s.Take(b, "2")
	cmd, out := b.Start("jobs.yaml")
	b.Until("one job has begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 1 })
	b.Until("status shows why the other jobs wait", time.Minute, func() bool {
		return strings.Contains(b.Run("status"), "your jobs on "+s.Engine+" already request 3 GPUs, and cluster.max_gpus_total is 3")
	})
	n, err := cluster.RequestedGPUs(s.Dialect, "root")
	if err != nil || n != 3 || len(strings.Fields(b.Read("journal"))) != 1 {
		t.Errorf("jobs request %d GPUs, %v, want 3; %d have begun, want 1", n, err, len(strings.Fields(b.Read("journal"))))
	}
	rows, err := s.Dialect.List("root").Run()
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	if all := strings.Join(names, " "); err != nil || strings.Count(all, "lab-j") != 1 || !strings.Contains(all, ".jobs-") {
		t.Errorf("the cluster lists %q, %v, want one lab-j….jobs-…", names, err)
	}
	s.Free(b)
	b.Until("three jobs have begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 3 })
	b.Write("go", "")
	_ = b.Finish(cmd)
	b.Says(out.String(), "4 of 4 done")
	if ran := len(strings.Fields(b.Read("journal"))); ran != 4 {
		t.Errorf("%d jobs ran, want 4", ran)
	}
}

// QuotaOfRuns checks that concurrent runs do not exceed their common quota.
func (s *Site) QuotaOfRuns(t *testing.T) {
	const file = `
settings: {engine: %s, cluster: {poll: 1s, max_gpus_total: 4}}
jobs: [{name: "j{i}", matrix: {i: "1..4"}, run: 'echo {i} >>%s.ran; until [ -e go ]; do sleep 0.1; done'}]
`
	b := s.New(t, "")
	var runs []*exec.Cmd
	var outs []Output
	for _, name := range []string{"a", "b", "c"} {
		b.Write(name+".yaml", fmt.Sprintf(file, s.Engine, name))
		cmd, out := b.Start(name + ".yaml")
		runs, outs = append(runs, cmd), append(outs, out)
	}
	most := 0
	ran := func() int {
		return len(strings.Fields(b.Read("a.ran") + " " + b.Read("b.ran") + " " + b.Read("c.ran")))
	}
	look := func() {
		if n, err := cluster.RequestedGPUs(s.Dialect, "root"); err == nil {
			most = max(most, n)
		}
	}
	b.Until("four jobs have begun, and status of two runs shows why their jobs wait", 2*time.Minute, func() bool {
		look()
		waits := 0
		for _, name := range []string{"a", "b", "c"} {
			waits += min(1, strings.Count(b.Run("status", name+".yaml"), "already request 4 GPUs, and cluster.max_gpus_total is 4"))
		}
		return ran() == 4 && waits >= 2
	})
	b.Write("go", "")
	b.Until("all jobs have begun", 3*time.Minute, func() bool {
		look()
		return ran() == 12
	})
	for i, cmd := range runs {
		_ = b.Finish(cmd)
		b.Says(outs[i].String(), "4 of 4 done")
	}
	if most > 4 {
		t.Errorf("the runs requested %d GPUs, want at most 4", most)
	}
}

// Exec checks that exec runs a command unchanged on GPUs of the cluster, with its stdin and exit
// status, once the quota permits.
func (s *Site) Exec(t *testing.T) {
	b := s.New(t, "jobs: []")
	s.Take(b, "1")
	huge, said := b.Start("exec", "--engine", s.Engine, "-g", "9", "--", "true")
	if _ = b.Finish(huge); huge.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), s.Engine+": ") {
		t.Errorf("with more GPUs than any node has: exit status %d, %q", huge.ProcessState.ExitCode(), said)
	}
	args := []string{"exec", "--engine", s.Engine, "--poll", "1s", "-g", "2", "--max-gpus"}
	name := "$" + s.JobName
	cmd, out := b.Start(append(args, "4", "--", "sh", "-c", "set -- $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); echo \""+name+"  has\" $#; exit 7")...)
	if _ = b.Finish(cmd); cmd.ProcessState.ExitCode() != 7 || !strings.Contains(out.String(), "gr-exec-sh  has 2\n") { // srun prints more
		t.Errorf("exit status %d, %q", cmd.ProcessState.ExitCode(), out)
	}
	shell := *b
	shell.Binary = "/bin/sh"
	cmd, out = shell.Start("-c", "echo 'it ran' | "+b.Binary+" "+strings.Join(args, " ")+" 2 -- cat 2>said")
	b.Until("exec shows why it waits", time.Minute, func() bool { // once the previous command is no longer listed
		return strings.Contains(b.Read("said"), "waiting: your jobs on "+s.Engine+" already request 1 GPU, and --max-gpus is 2")
	})
	s.Free(b)
	if err := b.Finish(cmd); err != nil || out.String() != "it ran\n" {
		t.Errorf("%v: %q", err, out)
	}
}

// ExecEnded checks that SIGTERM to exec also ends its running or waiting command in the cluster.
func (s *Site) ExecEnded(t *testing.T) {
	for _, name := range []string{"runs", "waits"} {
		t.Run(name, func(t *testing.T) {
			b := s.New(t, "jobs: []")
			if name == "waits" {
				b.Command(s.Shut[0]...)
				b.Cleanup(func() { Quietly(s.Shut[1]...) })
			}
			cmd, out := b.Start("exec", "--engine", s.Engine, "-g", "1", "--", "sh", "-c", "echo x >up; sleep 300")
			b.Cleanup(func() {
				if t.Failed() {
					t.Logf("exec printed %s; the cluster lists %s", out, s.Left())
				}
			})
			if b.Until("the cluster lists the command", time.Minute, func() bool { return s.left() > 0 }); name == "runs" {
				b.Wait("up")
			}
			_ = cmd.Process.Signal(unix.SIGTERM)
			b.Until("exec and its command have ended", time.Minute, func() bool { return Exited(cmd) && s.Left() == "" })
			if _ = b.Finish(cmd); cmd.ProcessState.ExitCode() == 0 {
				t.Errorf("exit status 0 after SIGTERM\n%s", out)
			}
		})
	}
}
