package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// FolderGone checks that jobs end even if their attempt's folder or their logs are removed while they
// wait or run.
func (s *Site) FolderGone(t *testing.T) {
	attempt := func(b *Bench, job string) string {
		return ".gpurun/jobs.yaml/attempts/" + b.Facts(state.KindStart)[job][0].UniID
	}
	logs := func(*Bench, string) string { return ".gpurun/jobs.yaml/logs" }
	meet := func(job string, folder func(b *Bench, job string) string, runs bool) func(b *Bench) {
		return func(b *Bench) {
			if runs {
				b.Wait(job + ".up")
				b.Until("the run sees that the job is running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)[job]) > 0 })
			} else {
				b.JobID(job)
			}
			path := filepath.Join(b.Dir, folder(b, job))
			if _, err := os.Stat(path); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(path); err != nil {
				b.Fatal(err)
			}
			b.Write(job+".go", "")
		}
	}
	again := []state.Phase{state.Lost, state.Succeeded}
	t.Run("queued", func(t *testing.T) {
		const keys = "gpus: 1, run: 'echo {name}'"
		s.Meet(t, "", []Fate{
			{Job: "{name: forgotten, " + keys + "}", Meet: meet("forgotten", attempt, false), Want: again, Free: true},
			{Job: "{name: unlogged, " + keys + "}", Meet: meet("unlogged", logs, false), Want: []state.Phase{state.Succeeded}},
		}, s.Before, s.After)
	})
	t.Run("running", func(t *testing.T) {
		if testing.Short() {
			t.Skip("waits until the node counts as silent")
		}
		const waits = "echo x >{name}.up; until [ -e {name}.go ]; do sleep 0.1; done"
		const keys, fails = "run: '" + waits + "'", "run: '" + waits + "; exit 3'"
		s.Meet(t, "", []Fate{
			{Job: "{name: forgotten, " + keys + "}", Meet: meet("forgotten", attempt, true), Want: again, Free: true},
			{Job: "{name: failing, " + fails + "}", Meet: meet("failing", attempt, true), Want: []state.Phase{state.Lost}, Says: "without a record"},
			{Job: "{name: unlogged, " + keys + "}", Meet: meet("unlogged", logs, true), Want: []state.Phase{state.Succeeded}},
		}, Nothing, Nothing)
	})
}

// Stalled checks that a job runs only once if its submission fails or waits because the controller
// has stalled, even if the controller accepts the submission later.
func (s *Site) Stalled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until commands time out")
	}
	b := s.New(t, "settings: "+s.settings("1s")+`
jobs:
  - {name: a, gpus: 0, run: 'echo a >>journal; echo x >up; until [ -e go ]; do sleep 0.1; done'}
  - {name: b, needs: a, gpus: 0, run: 'echo b >>journal'}
`)
	cmd, out := b.Start("jobs.yaml")
	b.Wait("up")
	pid := s.PID(b)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
	b.Write("go", "")
	b.Until("b is being submitted", time.Minute, func() bool { return len(b.Facts(state.KindStart)["b"]) == 1 })
	b.Until("status shows that the cluster does not answer", time.Minute, func() bool { return strings.Contains(b.Run("status"), s.Engine+" does not answer") })
	time.Sleep(*Outage)
	_ = unix.Kill(pid, unix.SIGCONT)
	_ = b.Finish(cmd)
	b.Says(out.String(), "2 of 2 done")
	if ran := b.Read("journal"); ran != "a\nb" {
		t.Errorf("ran %q, want a and b once each", ran)
	}
}

// TwoFiles checks that after a run of two job files with jobs in one array, each file can continue
// without the other.
func (s *Site) TwoFiles(t *testing.T) {
	const file = `
settings: %s
jobs: [{name: %s, gpus: 0, run: 'echo %[2]s >>journal; echo x >%[2]s.up; until [ -e %[2]s.go ]; do sleep 0.1; done; %s'}]
`
	b := s.New(t, fmt.Sprintf(file, s.settings("1s"), "a", "sleep 8"))
	b.Write("more.yaml", fmt.Sprintf(file, s.settings("1s"), "b", ":"))
	cmd, _ := b.Start("jobs.yaml", "more.yaml")
	b.Wait("a.up")
	b.Wait("b.up")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	b.Write("a.go", "")
	b.Says(b.Run("jobs.yaml"), "1 of 1 done") // lasts long enough for lists that show b's task
	b.Write("b.go", "")
	b.Says(b.Run("more.yaml"), "1 of 1 done")
	b.Says(b.Run("jobs.yaml", "more.yaml"), "2 of 2 done")
	if ran := b.Read("journal"); ran != "a\nb" && ran != "b\na" {
		t.Errorf("ran %q, want a and b once each", ran)
	}
}

// Untold checks that a job is resubmitted a few times if its node does not report its GPUs, but only
// if another job of the run has had GPUs. Otherwise, the site probably never reports them.
func (s *Site) Untold(t *testing.T) {
	if testing.Short() {
		t.Skip("submits a job many times")
	}
	b := s.New(t, "")
	b.Write("node", fmt.Sprintf(`#!/bin/sh
cd %q
n=$(cat untold || echo 0)
if [ $n -gt 0 ]; then
	echo $((n - 1)) >untold
	unset CUDA_VISIBLE_DEVICES SGE_HGR_gpu
fi
exec %q "$@"
`, b.Dir, b.Binary))
	if err := os.Chmod(filepath.Join(b.Dir, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Write("jobs.yaml", fmt.Sprintf(`
settings: {engine: %s, cluster: {poll: 1s, gpurun: %q}}
defaults: {gpus: 1, retry: 0}
jobs:
  - {name: told, run: 'echo 2 >untold'}
  - {name: twice, needs: told, run: 'echo 9 >untold'}
  - {name: always, needs: twice, run: 'true'}
`, s.Engine, filepath.Join(b.Dir, "node")))
	out := b.Run("jobs.yaml")
	ended := func(job string) (all string) {
		for _, e := range b.Facts(state.KindEnd)[job] {
			all += string(e.State)
			if e.Uncharged != "" && strings.Contains(e.Uncharged, " does not say which GPUs the job can use") {
				all += ", uncharged"
			}
			all += "; "
		}
		return all
	}
	const again = "failed, uncharged; "
	if twice, always := ended("twice"), ended("always"); twice != again+again+"succeeded; " || always != again+again+again+"failed; " {
		t.Errorf("twice ended as %s, and always as %s\n%s", twice, always, out)
	}
	if b.Run("jobs.yaml"); ended("always") != again+again+again+"failed; failed; " {
		t.Errorf("in a run without any granted GPUs, always ended as %s", ended("always"))
	}
}
