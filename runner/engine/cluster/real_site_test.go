package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/cluster"
	"gpurun/state"
)

// A Site is a real cluster, with its specific names and commands.
type Site struct {
	Engine   string
	Folder   string // the folder with testdata/cluster.sh
	Dialect  cluster.Dialect
	End      []string    // command that ends all jobs
	Listed   []string    // command that lists waiting and running jobs; the line of a task begins with its number
	Master   string      // pid file of the controller
	Commands []string    // commands that gpurun calls
	Shut     [2][]string // commands that prevent and allow starts
	Suspend  [2][]string // commands that suspend and resume a job
	Tend     func()      // makes all nodes accept jobs
	JobName  string      // variable with a job's name

	Take func(b *Bench, gpus string) // occupies GPUs with a job named "blocker" that was submitted without gpurun
	Free func(b *Bench)              // ends that job

	Before, After func(b *Bench)                 // prevent jobs with a GPU from starting, and allow it
	Fail          func(b *Bench, node string)    // makes the cluster report that job "done" failed on a node
	Told          func(b *Bench) map[string]Told // the cluster's records of past tasks, by their names
	Submit        []string                       // command that submits a script with two GPUs and one CPU
	Limit, Warn   []string                       // arguments for a time limit of a few minutes at most, with a warning before its end; command that warns a job now, or nil
	Keys          string                         // additional keys in the setting cluster, for Running
	Running       []Fate                         // fates of a running job, in addition to Usual
	Queued        []Fate                         // fates of a waiting job
	Still         []Fate                         // fates of a suspended job
	Long          []string                       // tests to skip with -short
}

// New empties the cluster and creates a bench on it. It skips the test unless GPURUN_ENGINES names
// the engine. The test's cleanup empties the cluster again.
func (s *Site) New(t *testing.T, file string) *Bench {
	t.Helper()
	if !slices.Contains(strings.Fields(os.Getenv("GPURUN_ENGINES")), s.Engine) {
		t.Skip("needs a real " + s.Engine + ": make engines")
	}
	binary, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{t, t.TempDir(), binary, s.Folder}
	b.Write("jobs.yaml", file)
	s.clear(b)
	t.Cleanup(func() { s.clear(b) })
	return b
}

func (s *Site) clear(b *Bench) {
	b.Helper()
	s.Tend()
	b.Until("the cluster is empty", 2*time.Minute, func() bool {
		Quietly(s.End...)
		return s.listed() == ""
	})
}

func (s *Site) listed() string {
	out, err := limited((*exec.Cmd).Output, s.Listed...)
	if err != nil {
		return "? " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// Left returns the lines of waiting and running tasks. It omits those that Slurm lists as completing:
// they are over, but if their node is busy, Slurm asks it again only after a minute.
func (s *Site) Left() string {
	left := ""
	for line := range strings.Lines(s.listed()) {
		if !strings.Contains(line, " COMPLETING ") {
			left += line
		}
	}
	return strings.TrimSpace(left)
}

// left returns the number of lines of Left.
func (s *Site) left() (n int) {
	for line := range strings.Lines(s.Left()) {
		if line = strings.TrimSpace(line); line != "" && line[0] >= '0' && line[0] <= '9' {
			n++
		}
	}
	return n
}

// settings returns the settings for a run that polls at this interval.
func (s *Site) settings(poll string) string {
	return "{engine: " + s.Engine + ", cluster: {poll: " + poll + "}}"
}

// PID returns the controller's PID.
func (s *Site) PID(b *Bench) int {
	b.Helper()
	text, _ := os.ReadFile(s.Master)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	return pid
}

// A Fate is something that happens to a job, and how its attempts then end in the ledger.
type Fate struct {
	Job  string // as in the job file
	Meet func(b *Bench)
	Want []state.Phase
	Free bool   // the first attempt spends no retry
	Race bool   // any attempt may or may not spend a retry
	Says string // part of the reason of the last end
}

// name returns the name of a fate's job.
func (f *Fate) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Job, "{name: "), ",")
	return name
}

// Nothing is a Meet function that does nothing.
func Nothing(*Bench) {}

// Meet runs the jobs of some fates, makes these fates happen, and checks how the jobs end. keys are
// additional keys in the setting cluster.
func (s *Site) Meet(t *testing.T, keys string, all []Fate, before, after func(b *Bench)) {
	t.Helper()
	jobs := ""
	for _, f := range all {
		jobs += "  - " + f.Job + "\n"
	}
	b := s.New(t, "settings: {engine: "+s.Engine+", grace: 2s, cluster: {poll: 2s"+keys+"}}\ndefaults: {gpus: 0, retry: 0}\njobs:\n"+jobs)
	before(b)
	cmd, out := b.Start("jobs.yaml")
	for _, f := range all {
		if f.Meet != nil {
			f.Meet(b)
		}
	}
	after(b)
	_ = b.Finish(cmd)
	ends := b.Facts(state.KindEnd)
	for _, f := range all {
		got := ends[f.name()]
		same := len(got) == len(f.Want)
		for i := range f.Want {
			same = same && got[i].State == f.Want[i] && (f.Race || (got[i].Uncharged != "") == (f.Free && i == 0))
		}
		if !same || !strings.Contains(got[len(got)-1].Reason, f.Says) {
			t.Errorf("%s ended as %+v, want %v and a reason with %q", f.name(), got, f.Want, f.Says)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// States and Waiting check the fates of running and waiting jobs with real daemons.
func (s *Site) States(t *testing.T)  { s.Meet(t, s.Keys, append(s.Running, Usual...), Nothing, Nothing) }
func (s *Site) Waiting(t *testing.T) { s.Meet(t, "", s.Queued, s.Before, s.After) }

// Usual are fates that do not depend on the kind of cluster.
var Usual = []Fate{
	{Job: "{name: exits, run: exit 3}", Want: []state.Phase{state.Failed}},
	{Job: "{name: late, timeout: 3s, run: sleep 300}", Want: []state.Phase{state.Timeout}, Says: "(timeout: 3s)"},
	{
		Job: "{name: stopped, run: 'echo x >stopped.up; sleep 300'}", Want: []state.Phase{state.Cancelled}, Says: "by gpurun stop",
		Meet: func(b *Bench) {
			b.Wait("stopped.up")
			b.Says(b.Run("stop", "stopped"), "cancelled: stopped")
		},
	},
	{
		Job: "{name: keeper, run: 'echo $PPID >keeper.up; sleep 300'}", Want: []state.Phase{state.Lost}, Says: "its keeper was killed",
		Meet: func(b *Bench) {
			if pid, err := strconv.Atoi(b.Wait("keeper.up")); err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
				b.Errorf("cannot kill the keeper: %v", err)
			}
		},
	},
}

// standStill suspends a job that writes its PID to NAME.up, and waits until it has stopped.
func (s *Site) standStill(b *Bench, name string) (pid int) {
	b.Helper()
	pid, err := strconv.Atoi(b.Wait(name + ".up"))
	if err != nil {
		b.Fatal(err)
	}
	b.Command(append(s.Suspend[0], b.JobID(name))...)
	b.Until(name+" is stopped", time.Minute, func() bool { return in(pid, still) })
	return pid
}

// Suspended checks that a suspended job stops, is shown as suspended, and continues when it is
// resumed. It also checks the site's fates of suspended jobs.
func (s *Site) Suspended(t *testing.T) {
	s.Meet(t, "", append(s.Still, Fate{
		Job: "{name: suspended, run: 'echo $$ >{name}.up; until [ -e go ]; do sleep 0.1; done'}", Want: []state.Phase{state.Succeeded},
		Meet: func(b *Bench) {
			pid := s.standStill(b, "suspended")
			b.Until("status shows the suspension", time.Minute, func() bool { return strings.Contains(b.Run("status"), "suspended by the cluster") })
			b.Command(append(s.Suspend[1], b.JobID("suspended"))...)
			b.Until("the job continues", time.Minute, func() bool { return !in(pid, still) })
			b.Until("status no longer shows the suspension", time.Minute, func() bool { return !strings.Contains(b.Run("status"), "suspended by the cluster") })
			b.Write("go", "")
		},
	}), Nothing, Nothing)
}

// NotShared checks that the run ends if a node cannot see the state folder, or gpurun in it. A single
// error must give the fix, and no job may count as failed.
func (s *Site) NotShared(t *testing.T) {
	for _, tt := range []struct{ missing, says string }{
		{"submits/*", "cannot see the state folder: keep the job file or --state-dir on a file system shared by all nodes"},
		{"bin/*/gpurun", "cannot see gpurun in the state folder: keep the folder on a file system shared by all nodes, or set cluster: {gpurun: PATH}"},
	} {
		t.Run(filepath.Base(tt.missing), func(t *testing.T) {
			b := s.New(t, "settings: "+s.settings("1s")+"\njobs: [{name: \"j{i}\", matrix: {i: 1..4}, gpus: 1, retry: 0, run: 'true'}]\n")
			s.Before(b)
			cmd, out := b.Start("jobs.yaml")
			for i := range 4 {
				b.JobID(fmt.Sprint("j", i+1))
			}
			found, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml", tt.missing))
			for i, path := range found { // several if some jobs were ready later and have another array
				if err := os.Rename(path, filepath.Join(b.Dir, fmt.Sprint("hidden", i))); err != nil {
					t.Fatal(err)
				}
			}
			s.After(b)
			_ = b.Finish(cmd)
			if n := strings.Count(out.String(), tt.says); n != 1 || cmd.ProcessState.ExitCode() != 4 || strings.Contains(out.String(), "failed") {
				t.Errorf("exit status %d, want 4; %d errors %q, want 1:\n%s", cmd.ProcessState.ExitCode(), n, tt.says, out)
			}
			b.Says(b.Run("jobs.yaml"), "4 of 4 done")
		})
	}
}
