package slurm

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"gpurun/state"
)

// These tests run gpurun against the Slurm that testdata/cluster.sh starts: make engines.

// A bench is a folder with a job file, and gpurun built from this source.
type bench struct {
	t      *testing.T
	dir    string
	binary string
}

var built string

func newBench(t *testing.T, file string) *bench {
	t.Helper()
	if !slices.Contains(strings.Fields(os.Getenv("GPURUN_ENGINES")), "slurm") {
		t.Skip("needs a Slurm: make engines")
	}
	if built == "" {
		dir, err := os.MkdirTemp("", "gpurun-slurm-")
		if err != nil {
			t.Fatal(err)
		}
		built = filepath.Join(dir, "gpurun")
		if out, err := exec.Command("go", "build", "-ldflags", "-extldflags=-Wl,-z,lazy", "-o", built, "gpurun").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	b := &bench{t, t.TempDir(), built}
	b.write("jobs.yaml", file)
	return b
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// start starts gpurun; its output is returned when it has ended.
func (b *bench) start(args ...string) (*exec.Cmd, *bytes.Buffer) {
	b.t.Helper()
	cmd := exec.Command(b.binary, args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "HOME="+b.dir, "GPURUN_CLAIMS_DIR="+b.dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &out
}

func (b *bench) run(args ...string) string {
	b.t.Helper()
	cmd, out := b.start(args...)
	end := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
	defer end.Stop()
	_ = cmd.Wait()
	return out.String()
}

func (b *bench) says(out, want string) {
	b.t.Helper()
	if !strings.Contains(out, want) {
		b.t.Errorf("it did not say %q:\n%s", want, out)
	}
}

// until waits for something to become true.
func (b *bench) until(what string, limit time.Duration, is func() bool) {
	b.t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("still not: %s", what)
		}
	}
}

// wait waits for a file that a job writes, and returns what is in it.
func (b *bench) wait(name string) (text string) {
	b.t.Helper()
	b.until(name, time.Minute, func() bool {
		c, err := os.ReadFile(filepath.Join(b.dir, name))
		text = strings.TrimSpace(string(c))
		return err == nil && text != ""
	})
	return text
}

// facts returns what the ledger has of one kind, by job, in order.
func (b *bench) facts(kind state.Kind) map[string][]state.Fact {
	b.t.Helper()
	all := map[string][]state.Fact{}
	f, err := os.Open(filepath.Join(b.dir, ".gpurun/jobs.yaml/ledger.jsonl"))
	if err != nil {
		return all
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var fact state.Fact
		if json.Unmarshal(in.Bytes(), &fact) == nil && fact.Kind == kind {
			all[fact.Job] = append(all[fact.Job], fact)
		}
	}
	return all
}

// jobID returns the cluster's name for a job, once it has one.
func (b *bench) jobID(job string) (id string) {
	b.t.Helper()
	b.until(job+" is queued", time.Minute, func() bool {
		if q := b.facts(state.KindQueued)[job]; len(q) > 0 {
			id = q[len(q)-1].JobID
		}
		return id != ""
	})
	return id
}

func (b *bench) command(args ...string) string {
	b.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

func (b *bench) cluster(verb string) string { return b.command("testdata/cluster.sh", verb) }

// The examples run unchanged, partly here and partly there, with one ledger.
func TestRealMultiSeed(t *testing.T) {
	text, err := os.ReadFile("../../../../jobs/multi_seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, strings.Replace(string(text), "work_dir: ..", "work_dir: .", 1))
	b.says(b.run("--engine", "slurm", "jobs.yaml"), "24 succeeded")
	b.says(b.run("--engine", "slurm", "jobs.yaml"), "24 up to date")
	b.says(b.run("plan", "jobs.yaml"), "24 up to date")

	b = newBench(t, `jobs: [{name: "j{i}", matrix: {i: "0..7"}, gpus: 0, run: "echo {i}"}]`)
	b.says(b.run("--only", "j[0-3]", "jobs.yaml"), "4 succeeded")
	b.says(b.run("--engine", "slurm", "jobs.yaml"), "4 succeeded, 4 up to date")
	b.says(b.run("jobs.yaml"), "8 up to date")
}

// Each job meets its own fate, by the real daemons.
func TestRealStates(t *testing.T) {
	b := newBench(t, `
settings: {engine: slurm, grace: 2s, cluster: {poll: 2s}}
defaults: {gpus: 0}
jobs:
  - {name: exits, run: exit 3}
  - {name: hungry, memory: 60MiB, run: 'x=$(head -c 400000000 /dev/zero | tr "\0" x); echo ${#x}'}
  - {name: scancelled, retry: 3, run: 'echo x >scancelled.up; sleep 300'}
  - {name: outer, retry: 1, run: '[ -e outer.up ] && exit 0; echo $SLURM_JOB_ID >outer.up; sleep 300'}
  - {name: keeper, retry: 0, run: 'echo $PPID >keeper.up; sleep 300'}
  - {name: late, timeout: 3s, run: sleep 300}
  - {name: stopped, run: 'echo x >stopped.up; sleep 300'}
  - {name: huge, gpus: 9, run: "true"}
  - {name: held, gpus: 1, run: "true"}
  - {name: pending, gpus: 1, run: "true"}
`)
	for _, n := range []string{"node1", "node2"} { // nothing with a GPU starts
		b.command("sbatch", "--parsable", "-o", "/dev/null", "-w", n, "--gres=gpu:4", "--wrap", "sleep 600", "-J", "blocker")
	}
	defer b.command("scancel", "-n", "blocker")
	b.until("blockers run", 20*time.Second, func() bool {
		return strings.Count(b.command("squeue", "-h", "-n", "blocker", "-t", "R"), "blocker") == 2
	})
	cmd, out := b.start("jobs.yaml")

	b.wait("scancelled.up")
	b.command("scancel", b.jobID("scancelled"))
	b.kill(b.wait("outer.up"), func(args string) bool { return strings.Contains(args, "__task") && !strings.HasSuffix(args, "keep") })
	if pid, err := strconv.Atoi(b.wait("keeper.up")); err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
		t.Errorf("cannot kill the keeper: %v", err)
	}
	b.wait("stopped.up")
	b.says(b.run("stop", "stopped"), "cancelled: stopped")
	held := b.jobID("held")
	b.command("scontrol", "hold", held)
	b.until("the reason is shown", 30*time.Second, func() bool { return strings.Contains(b.run("status"), "JobHeld") })
	b.command("scontrol", "release", held)
	b.command("scancel", b.jobID("pending"))
	b.until("pending is cancelled", time.Minute, func() bool { return len(b.facts(state.KindEnd)["pending"]) > 0 })
	b.command("scancel", "-n", "blocker")
	_ = cmd.Wait()

	ends := b.facts(state.KindEnd)
	for job, want := range map[string][]state.Fact{
		"exits":      {{State: state.Failed}},
		"hungry":     {{State: state.OOM}},
		"scancelled": {{State: state.Cancelled}},
		"outer":      {{State: state.Lost}, {State: state.Succeeded}}, // Slurm ends its keeper with it
		"keeper":     {{State: state.Lost}},
		"late":       {{State: state.Timeout}},
		"stopped":    {{State: state.Cancelled}},
		"huge":       {{State: state.Failed}},
		"held":       {{State: state.Succeeded}},
		"pending":    {{State: state.Cancelled}},
	} {
		got := ends[job]
		same := len(got) == len(want)
		for i := range want {
			same = same && got[i].State == want[i].State && (got[i].Uncharged != "") == (want[i].Uncharged != "")
		}
		if !same {
			t.Errorf("%s ended as %+v, want %+v", job, got, want)
		}
	}
	if huge := ends["huge"]; len(huge) == 1 && !strings.Contains(huge[0].Reason, "Requested node configuration is not available") {
		t.Errorf("huge: %q", huge[0].Reason)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// kill kills the process of a job of Slurm that is looked for.
func (b *bench) kill(job string, is func(args string) bool) {
	b.t.Helper()
	killed := 0
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		env, _ := os.ReadFile(p + "/environ")
		args, _ := os.ReadFile(p + "/cmdline")
		if bytes.Contains(env, []byte("SLURM_JOB_ID="+job+"\x00")) && is(strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " ")) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			if unix.Kill(pid, unix.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed != 1 {
		b.t.Errorf("killed %d processes of job %s", killed, job)
	}
}

// Those that lose their place through no fault of their own run again, without spending a retry.
func TestRealDisplaced(t *testing.T) {
	const file = `
settings: {engine: slurm, cluster: {poll: 2s}}
jobs: [{name: a, gpus: 4, retry: 0, run: 'if [ ! -e up ]; then echo $SLURMD_NODENAME >up; sleep 300; fi'}]
`
	for name, displace := range map[string]func(b *bench, node string){
		"preempted": func(b *bench, node string) {
			b.command("sbatch", "--parsable", "-o", "/dev/null", "-p", "urgent", "-w", node, "--gres=gpu:4", "--wrap", "sleep 1")
		},
		"node down": func(b *bench, node string) {
			b.command("scontrol", "update", "nodename="+node, "state=down", "reason=test")
			b.t.Cleanup(func() { _ = exec.Command("scontrol", "update", "nodename="+node, "state=resume").Run() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, file)
			cmd, out := b.start("jobs.yaml")
			displace(b, b.wait("up"))
			_ = cmd.Wait()
			ends := b.facts(state.KindEnd)["a"]
			if len(ends) != 2 || ends[0].Uncharged == "" || ends[1].State != state.Succeeded {
				t.Errorf("ended as %+v\n%s", ends, out)
			}
		})
	}
}

// The controller crashes twice while jobs begin and end, and forgets or repeats some of that.
// Every job ends once, and none runs twice.
func TestRealControllerKilled(t *testing.T) {
	b := newBench(t, `
settings: {engine: slurm, cluster: {poll: 2s}}
jobs: [{name: "j{i}", matrix: {i: "0..39"}, gpus: 1, run: 'echo {i} >>journal; sleep 1'}]
`)
	cmd, out := b.start("jobs.yaml")
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	begun := func(n int) func() bool {
		return func() bool {
			// Slurm sets a node aside on which it starts a job whose ID it had given away before.
			_ = exec.Command("scontrol", "update", "nodename=node[1-2]", "state=resume").Run()
			return len(b.journal()) >= n || len(over) > 0
		}
	}
	for _, n := range []int{3, 20} {
		b.until(fmt.Sprintf("%d jobs have begun", n), 9*time.Minute, begun(n))
		b.cluster("kill")
		b.cluster("start")
	}
	b.until("all jobs have ended", 9*time.Minute, begun(1<<30))
	b.once(40)
	if t.Failed() {
		t.Log(out.String())
	}
}

func (b *bench) journal() []string {
	text, _ := os.ReadFile(filepath.Join(b.dir, "journal"))
	return strings.Fields(string(text))
}

// once checks that every job ran once, by its own journal and by the ledger.
func (b *bench) once(n int) {
	b.t.Helper()
	ran := map[string]int{}
	for _, job := range b.journal() {
		ran[job]++
	}
	ends := b.facts(state.KindEnd)
	for i := range n {
		job, good := strconv.Itoa(i), 0
		for _, e := range ends["j"+job] {
			if e.State == state.Succeeded {
				good++
			}
		}
		if ran[job] != 1 || good != 1 {
			b.t.Errorf("j%s ran %d times and succeeded %d times in the ledger: %+v", job, ran[job], good, ends["j"+job])
		}
	}
}

// A run that is killed at any moment finds its jobs again.
func TestRealRunnerKilled(t *testing.T) {
	const n = 60
	b := newBench(t, fmt.Sprintf(`
settings: {engine: slurm, cluster: {poll: 2s}}
jobs: [{name: "j{i}", matrix: {i: "0..%d"}, gpus: 0, run: 'echo {i} >>journal; sleep 0.5'}]
`, n-1))
	for i := range 40 {
		cmd, _ := b.start("jobs.yaml")
		time.Sleep(time.Duration(20+i*i%37*15) * time.Millisecond) // anywhere
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	out := b.run("jobs.yaml")
	b.once(n)
	if left := b.command("squeue", "-h", "-n", "gr-jobs", "-t", "PD,R"); left != "" || t.Failed() {
		t.Errorf("left in the cluster:\n%s\n%s", left, out)
	}
}

// While the controller hangs, the view goes on and says so, and Ctrl-C answers.
func TestRealControllerHangs(t *testing.T) {
	b := newBench(t, `
settings: {engine: slurm, cluster: {poll: 1s}}
jobs:
  - {name: a, gpus: 0, run: 'echo x >up; until [ -e go ]; do sleep 0.1; done'}
  - {name: b, needs: a, gpus: 0, run: "true"}
`)
	cmd, out := b.start("jobs.yaml")
	b.wait("up")
	pid, err := strconv.Atoi(strings.TrimSpace(b.command("cat", "/var/lib/gpurun-test-slurm/run/slurmctld.pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(pid, unix.SIGCONT)
	b.write("go", "") // b is submitted into the void
	b.until("it says why it waits", time.Minute, func() bool { return strings.Contains(b.run("status"), "slurm does not answer") })
	began := time.Now()
	_ = cmd.Process.Signal(unix.SIGINT)
	_ = cmd.Process.Signal(unix.SIGINT)
	b.until("a has ended", time.Minute, func() bool { return len(b.facts(state.KindEnd)["a"]) == 1 })
	_ = cmd.Process.Signal(unix.SIGINT)
	b.until("it has ended", time.Minute, func() bool { return cmd.ProcessState != nil || unix.Kill(cmd.Process.Pid, 0) != nil || exited(cmd) })
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("Ctrl-C took %v\n%s", d, out)
	}
}

// exited reports whether a command is over, without waiting for it.
func exited(cmd *exec.Cmd) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}
