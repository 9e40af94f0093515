package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// If nodes and runs claim an attempt concurrently, either one node succeeds, or the runs forbid the
// start and no node does.
func TestOneClaimWins(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		var nodes, voids atomic.Int32
		var work sync.WaitGroup
		for i := range 16 {
			work.Go(func() {
				switch {
				case i%2 == 0 && claim(dir, "node1 7_0") == nil:
					nodes.Add(1)
				case i%2 == 1 && forbid(dir):
					voids.Add(1)
				}
			})
		}
		work.Wait()
		void := claimedBy(dir) == voidMark
		if void && nodes.Load() != 0 || !void && (nodes.Load() != 1 || voids.Load() != 0) {
			t.Fatalf("%d nodes claimed it, %d runs voided it, the marker has %q", nodes.Load(), voids.Load(), claimedBy(dir))
		}
	}
}

// Once a run has removed an attempt's folder, no node can begin the attempt.
func TestClaimNeedsAttemptFolder(t *testing.T) {
	if err := claim(filepath.Join(t.TempDir(), "gone"), "node1 7_0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// prepared returns a submission of some attempts.
func prepared(t *testing.T, n int) (s *submit, batch []*engine.Launch) {
	s = &submit{dir: filepath.Join(t.TempDir(), "0badcafe")}
	for i := range n {
		batch = append(batch, &engine.Launch{
			Identity: engine.Identity{UniID: fmt.Sprint("u", i), Job: "j", Dir: filepath.Join(t.TempDir(), fmt.Sprint("u", i)), Grace: time.Second},
			Command:  engine.Command{Commands: []string{fmt.Sprint("echo \xff\n", i)}, Env: []string{"A=b"}},
			Request:  &engine.Request{GPUs: 2, Models: []string{"a100"}, Memory: gpu.GiB},
		})
	}
	for _, l := range batch {
		if err := os.Mkdir(l.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := preparer().prepare(s, batch); err != nil {
		t.Fatal(err)
	}
	return s, batch
}

// preparer returns a cluster that can prepare submissions.
func preparer() *Cluster {
	return &Cluster{Config: engine.Config{Environ: []string{"HOME=/h"}, Go: func(f func()) { go f() }}, dialect: named{name: "slurm"}}
}

// An attempt that is stopped while its submission is prepared loses its folder. The other attempts
// must still be submitted.
func TestPrepareSkipsStoppedAttempts(t *testing.T) {
	s, batch := prepared(t, 3)
	if err := errors.Join(os.Remove(filepath.Join(batch[0].Dir, wire.StatusFile)), os.RemoveAll(batch[1].Dir)); err != nil {
		t.Fatal(err)
	}
	again := &submit{dir: s.dir + "2"}
	if err := preparer().prepare(again, batch[:2]); err != nil {
		t.Fatal(err)
	}
	if st, err := readStatus(batch[0].Dir); err != nil || len(st) <= placeFrom {
		t.Errorf("the other attempt has the status file %q, %v", st, err)
	}
	if _, err := os.Lstat(batch[1].Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stopped attempt has a folder again: %v", err)
	}
	if err := preparer().prepare(&submit{dir: s.dir + "3"}, batch[2:]); err == nil {
		t.Error("an attempt that already has a status file was prepared")
	}
}

func TestPrepareWritesFilesOfEachAttempt(t *testing.T) {
	s, batch := prepared(t, 3)
	for i, l := range batch {
		st, err := readStatus(l.Dir)
		p, ok := st.place()
		if err != nil || !ok || p != (place{Engine: "slurm", Submit: s.dir, Task: i, GPUs: 2}) {
			t.Errorf("got %+v, %v, %v", p, ok, err)
		}
		if got, err := p.launch(); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("got %+v, %v, want %+v", got, err, l)
		}
		if end, begun := st.result(l.UniID); end != nil || begun != nil || readRequest(p) != (request{}) || claimedBy(l.Dir) != "" {
			t.Error("a new attempt counts as begun, ended, claimed or stopped")
		}
		if err := writeStatus(l.Dir, p); err == nil {
			t.Error("a status file was overwritten")
		}
	}
	if _, err := (place{Submit: s.dir, Task: 3}).launch(); err == nil {
		t.Error("the launches have a fourth task, want 3")
	}
	for _, name := range []string{launchesFile, envFile} {
		if fi, err := os.Stat(filepath.Join(s.dir, name)); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("other users can read the environment in %s: %v, %v", name, fi, err)
		}
	}
}

// A node must change only its own parts of the status file: the record and the task.
func TestNodeWritesOnlyItsPart(t *testing.T) {
	s, batch := prepared(t, 1)
	dir, want := batch[0].Dir, place{Engine: "slurm", Submit: s.dir, GPUs: 2}
	read := func() (*wire.Record, *task) {
		st, _ := readStatus(dir)
		if p, ok := st.place(); !ok || p != want {
			t.Errorf("place %+v, %v, want %+v", p, ok, want)
		}
		if end, begun := st.result("u9"); end != nil || begun != nil {
			t.Errorf("the files of u0 were read as those of u9: %+v, %+v", end, begun)
		}
		return st.result("u0")
	}
	Task := &task{UniID: "u0", Host: "node1", GPUs: []int{2, 3}, Running: &engine.Running{PID: 5}, Beat: 2, Stray: strings.Repeat("\"", 3000)}
	if err := Task.put(dir); err != nil {
		t.Fatal(err)
	}
	if end, got := read(); end != nil || got == nil || got.Running.PID != 5 || got.Beat != 2 || !reflect.DeepEqual(got.GPUs, []int{2, 3}) {
		t.Errorf("got %+v, %+v", end, got)
	}
	f, err := wire.OpenRecord(dir, state.Slot{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, r := range []wire.Record{{State: wire.StateOpen}, {State: wire.StateOver, End: state.End{ExitCode: 3, Err: strings.Repeat("x", 5000)}}} {
		r.UniID = "u0"
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
		end, got := read()
		if got == nil || (end != nil) != (r.State == wire.StateOver) || end != nil && end.ExitCode != 3 {
			t.Errorf("got %+v, %+v", end, got)
		}
	}
}

func TestStopRequestIsReadBack(t *testing.T) {
	s, _ := prepared(t, 3)
	p, path := place{Submit: s.dir, Task: 1}, filepath.Join(s.dir, stopsFile)
	for _, r := range []request{{how: "term", why: "cancelled"}, {how: "kill"}} {
		if err := r.put(p); err != nil {
			t.Fatal(err)
		}
		if got := readRequest(p); got != r {
			t.Errorf("got %+v, want %+v", got, r)
		}
		for _, other := range []int{0, 2} {
			if got := readRequest(place{Submit: s.dir, Task: other}); got != (request{}) {
				t.Errorf("task %d has the request %+v, want none", other, got)
			}
		}
	}
	for _, text := range []string{"", "term", strings.Repeat("x", 200)} {
		if err := os.WriteFile(path, append(bytes.Repeat([]byte(" "), stopSize), text...), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := readRequest(p); got != (request{}) {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// No character in a path may change the meaning of the script.
func TestScriptQuotesItsFolder(t *testing.T) {
	for variable, want := range map[string]string{"": "exec '/a b/it'\\''s/gpurun' __task '/state/$x' \n", "SGE_HGR_gpu": "__task '/state/$x' 'SGE_HGR_gpu'\n"} {
		c := &Cluster{binary: "/a b/it's/gpurun", dialect: named{grants: variable}}
		if got := c.script(&submit{dir: "/state/$x"}); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want suffix %q", got, want)
		}
	}
}

// Grid Engine gives some exit statuses a special meaning.
func TestSpecialExitStatusesAreReplaced(t *testing.T) {
	for status, want := range map[int]int{0: 0, 3: 3, 99: 98, 100: 98, -1: 137} {
		if got := safeStatus(status); got != want {
			t.Errorf("%d: got %d, want %d", status, got, want)
		}
	}
}

// The node's variables override those of the login node, and the job's own override both.
func TestJobVariablesOverrideNode(t *testing.T) {
	sub := t.TempDir()
	if err := write(filepath.Join(sub, envFile), []byte(`["HOME=/h","SLURM_JOB_ID=login","CUDA_VISIBLE_DEVICES=9","MINE=login"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("CUDA_VISIBLE_DEVICES", "2,3")
	t.Setenv("MINE", "node")
	n := &node{all: []string{"SLURM*", visible}}
	l := &engine.Launch{Command: engine.Command{Commands: []string{"run " + engine.Token("gpu_list") + " " + engine.Token("gpu")}, Env: []string{"MINE=" + engine.Token("ngpus")}}, Request: &engine.Request{GPUs: 2}}
	n.completeLaunch(l, sub, &task{Host: "node1", GPUs: []int{2, 3}})
	for name, want := range map[string]string{"HOME": "/h", "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "2,3", "MINE": "2"} {
		if got := engine.Variable(l.Env, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if l.Commands[0] != "run 2,3 2" || len(l.Grant.UUIDs) != 2 {
		t.Errorf("got %q, %+v", l.Commands, l.Grant)
	}
	named := &engine.Launch{Command: engine.Command{Commands: []string{engine.Token("ngpus")}}, Request: &engine.Request{GPUs: 2}}
	if n.completeLaunch(named, sub, &task{UUIDs: []gpu.UUID{"GPU-a", "GPU-b"}}); named.Commands[0] != "2" {
		t.Errorf("ngpus is %q on a node that names GPUs by UUID, want 2", named.Commands[0])
	}
	cpu := &engine.Launch{Request: &engine.Request{}}
	n.completeLaunch(cpu, sub, &task{})
	if got := engine.Variable(cpu.Env, "CUDA_VISIBLE_DEVICES"); got != "-1" {
		t.Errorf("CUDA_VISIBLE_DEVICES of a CPU job is %q, want -1", got)
	}
}

// A job gets the variables that its node set or changed. A daemon's own variables do not override
// the login node's.
func TestJobGetsNodeVariables(t *testing.T) {
	login := []string{"A=1", "B=1", "HOME=/h", "TMPDIR=/t"}
	env := []string{"A=1", "B=2", "C=3", "HOME=/node", "TMPDIR=/node", "SHLVL=1", "SGE_ROOT=/r"}
	for daemon, want := range map[bool]string{false: "B=2 C=3 TMPDIR=/node SGE_ROOT=/r", true: "C=3 TMPDIR=/node SGE_ROOT=/r"} {
		n := &node{daemon: daemon, all: []string{"SGE_*", "TMPDIR"}}
		if got := strings.Join(n.changed(env, login), " "); got != want {
			t.Errorf("daemon %v: got %q, want %q", daemon, got, want)
		}
	}
}

func TestUnknownGPUsAreRefused(t *testing.T) {
	two := &engine.Launch{Request: &engine.Request{GPUs: 2}}
	for _, c := range []struct {
		l       *engine.Launch
		env     []string
		refused bool
	}{
		{two, []string{"CUDA_VISIBLE_DEVICES=0,3"}, false},
		{two, []string{"CUDA_VISIBLE_DEVICES=GPU-5"}, false},
		{two, []string{"CUDA_VISIBLE_DEVICES="}, true},
		{two, nil, true},
		{&engine.Launch{Request: &engine.Request{}}, nil, false},
		{&engine.Launch{}, nil, false},
	} {
		if why := refuseUnknownGPUs(c.l, c.env, "node7", "SGE_HGR_gpu"); (why != "") != c.refused || c.refused && !strings.HasPrefix(why, "node7 does not say") {
			t.Errorf("%+v with %q: got %q, want a refusal: %v", c.l.Request, c.env, why, c.refused)
		}
	}
}

// If CUDA_VISIBLE_DEVICES is empty, a node's own variable with GPU numbers selects the GPUs, both of
// a task and of a command that runs without a task.
func TestGrantedVariableSetsVisibleDevices(t *testing.T) {
	path := "PATH=" + os.Getenv("PATH")
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"SGE_HGR_gpu=0 2"}, "0,2"},
		{[]string{"SGE_HGR_gpu=3"}, "3"},
		{[]string{"SGE_HGR_gpu=GPU1 GPU2"}, ""}, // only the site can map these to GPUs
		{[]string{"SGE_HGR_gpu="}, ""},
		{[]string{"SGE_HGR_gpux=0"}, ""},
		{[]string{"SGE_HGR_gpu=0 2", "CUDA_VISIBLE_DEVICES=5"}, "5"},
		{nil, ""},
	} {
		t.Setenv("CUDA_VISIBLE_DEVICES", "")
		t.Setenv("SGE_HGR_gpu", "")
		t.Setenv("CUDA_DEVICE_ORDER", "") // which useGranted sets
		for _, kv := range c.env {
			name, value, _ := strings.Cut(kv, "=")
			t.Setenv(name, value)
		}
		if useGranted("SGE_HGR_gpu"); os.Getenv("CUDA_VISIBLE_DEVICES") != c.want {
			t.Errorf("%q: a task sees %q, want %q", c.env, os.Getenv("CUDA_VISIBLE_DEVICES"), c.want)
		}
		argv := Guarded("SGE_HGR_gpu", []string{"sh", "-c", `echo "$CUDA_VISIBLE_DEVICES $1"`, "x", "a  b"})
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(c.env, path)
		out, err := cmd.CombinedOutput()
		if ran := err == nil; ran != (c.want != "") || ran && string(out) != c.want+" a  b\n" || !ran && !strings.Contains(string(out), " does not say which GPUs the job can use: CUDA_VISIBLE_DEVICES is not set, and SGE_HGR_gpu ") {
			t.Errorf("%q: a command without a task printed %q, %v", c.env, out, err)
		}
	}
}
