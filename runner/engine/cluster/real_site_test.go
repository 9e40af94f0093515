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

// A Site is a real cluster: what there is called how.
type Site struct {
	Engine   string
	Folder   string // with testdata/cluster.sh
	Dialect  cluster.Dialect
	End      []string    // the command that ends all jobs
	Listed   []string    // the command that lists what waits or runs; a line of a task begins with its number
	Master   string      // pid file of the controller
	Commands []string    // that gpurun calls
	Shut     [2][]string // the commands that let no job start, and again
	Suspend  [2][]string // the commands that suspend a job, and again
	Tend     func()      // has all nodes take jobs
	JobName  string      // the variable that has a job's name

	Take func(b *Bench, gpus string) // takes GPUs as somebody would who does not use gpurun
	Free func(b *Bench)              // gives back what was taken

	Before, After func(b *Bench)                 // keep jobs with a GPU from starting, and let them start
	Fail          func(b *Bench, node string)    // has the cluster say that job "done" failed there, before its record is seen
	Told          func(b *Bench) map[string]Told // what the cluster says of past tasks, by their names
	Submit        []string                       // the command that submits a script with two GPUs and one CPU
	Limit, Warn   []string                       // its arguments for the shortest time, with a warning before its end; the command that warns a job
	Keys          string                         // more of the setting cluster, for Running
	Running       []Fate                         // what a running job can meet there, beside Usual,
	Queued        []Fate                         // one that waits,
	Still         []Fate                         // and one that is suspended
	Long          []string                       // tests to leave out with -short
}

// New makes a bench on a cluster without jobs, and leaves it so, if this engine's is to be tested.
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
		return s.Left() == ""
	})
}

// Left returns the jobs that wait or run.
func (s *Site) Left() string {
	out, err := exec.Command(s.Listed[0], s.Listed[1:]...).Output()
	if err != nil {
		return "? " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// left returns how many tasks these are.
func (s *Site) left() (n int) {
	for line := range strings.Lines(s.Left()) {
		if line = strings.TrimSpace(line); line != "" && line[0] >= '0' && line[0] <= '9' {
			n++
		}
	}
	return n
}

// settings are those of a job file whose run looks for changes this often.
func (s *Site) settings(poll string) string {
	return "{engine: " + s.Engine + ", cluster: {poll: " + poll + "}}"
}

// PID returns the controller's.
func (s *Site) PID(b *Bench) int {
	b.Helper()
	text, _ := os.ReadFile(s.Master)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	return pid
}

// A Fate is what a job meets, and how its attempts end in the ledger.
type Fate struct {
	Job  string // as in the job file
	Meet func(b *Bench)
	Want []state.Phase
	Free bool   // the first attempt spends no retry
	Race bool   // or may spend one
	Says string // the reason of the last end
}

// name returns the name of a fate's job.
func (f *Fate) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Job, "{name: "), ",")
	return name
}

// Nothing is for Meet.
func Nothing(*Bench) {}

// Meet runs the jobs of some fates, has them meet these, and checks how they end. keys are
// more of the setting cluster.
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
			t.Errorf("%s ended as %+v, want %v, and that it says %q", f.name(), got, f.Want, f.Says)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// States and Waiting check that each job meets its own fate, by the real daemons.
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

// standStill has a job that writes its pid to NAME.up suspended, until it stands still.
func (s *Site) standStill(b *Bench, name string) (pid int) {
	b.Helper()
	pid, err := strconv.Atoi(b.Wait(name + ".up"))
	if err != nil {
		b.Fatal(err)
	}
	b.Command(append(s.Suspend[0], b.JobID(name))...)
	b.Until(name+" stands still", 30*time.Second, func() bool { return in(pid, still) })
	return pid
}

// Suspended checks that a job that is suspended stands still, says so, and goes on; and what
// others meet.
func (s *Site) Suspended(t *testing.T) {
	s.Meet(t, "", append(s.Still, Fate{
		Job: "{name: suspended, run: 'echo $$ >{name}.up; until [ -e go ]; do sleep 0.1; done'}", Want: []state.Phase{state.Succeeded},
		Meet: func(b *Bench) {
			pid := s.standStill(b, "suspended")
			b.Until("it says so", time.Minute, func() bool { return strings.Contains(b.Run("status"), "suspended by the cluster") })
			b.Command(append(s.Suspend[1], b.JobID("suspended"))...)
			b.Until("it goes on", 30*time.Second, func() bool { return !in(pid, still) })
			b.Until("it says no more", time.Minute, func() bool { return !strings.Contains(b.Run("status"), "suspended by the cluster") })
			b.Write("go", "")
		},
	}), Nothing, Nothing)
}

// NotShared checks that a node that does not see the state folder, or gpurun in it, ends the run with one error that names
// the node and the cure, and that no job has failed.
func (s *Site) NotShared(t *testing.T) {
	for _, tt := range []struct{ missing, says string }{
		{"submits/*", "does not see the state folder: keep the job file, or --state-dir, on a file system that all nodes share"},
		{"bin/*/gpurun", "does not see gpurun in the state folder: keep that on a file system that all nodes share, or set cluster: {gpurun: PATH}"},
	} {
		t.Run(filepath.Base(tt.missing), func(t *testing.T) {
			b := s.New(t, "settings: "+s.settings("1s")+"\njobs: [{name: \"j{i}\", matrix: {i: 1..4}, gpus: 1, retry: 0, run: 'true'}]\n")
			s.Before(b)
			cmd, out := b.Start("jobs.yaml")
			for i := range 4 {
				b.JobID(fmt.Sprint("j", i+1))
			}
			found, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml", tt.missing))
			for i, path := range found { // of several arrays, if some jobs were ready late
				if err := os.Rename(path, filepath.Join(b.Dir, fmt.Sprint("hidden", i))); err != nil {
					t.Fatal(err)
				}
			}
			s.After(b)
			_ = b.Finish(cmd)
			if n := strings.Count(out.String(), tt.says); n != 1 || cmd.ProcessState.ExitCode() != 4 || strings.Contains(out.String(), "failed") {
				t.Errorf("exit status %d, and %d times %q:\n%s", cmd.ProcessState.ExitCode(), n, tt.says, out)
			}
			b.Says(b.Run("jobs.yaml"), "4 of 4 done")
		})
	}
}
