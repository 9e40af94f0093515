package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// batch returns a lane for a job file given as text.
func batch(t *testing.T, text string) *lane {
	t.Helper()
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", strings.ReplaceAll(text, "DIR", p.dir))
	return l
}

func (l *lane) says(r *runner, texts ...string) {
	l.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out.String(), text) {
			l.t.Errorf("no %q in the output:\n%s", text, r.out.String())
		}
	}
}

// A log that cannot be opened fails only its own job.
func TestUnopenableLogFailsOnlyItsJob(t *testing.T) {
	t.Parallel()
	l := batch(t, `jobs:
  - {name: folder, gpus: 0, run: "true", log: DIR/lane}
  - {name: fifo, gpus: 0, run: "true", log: DIR/lane/fifo}
  - {name: fine, gpus: 0, run: "true"}
`)
	if err := syscall.Mkfifo(filepath.Join(l.dir, "lane", "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := l.run(1)
	l.says(r, "failed      folder: ", "is a directory", "failed      fifo: ", "no process reads this FIFO", "1 of 3 done, 2 failed")
	noneLeft(t, l.mark)
}

// Jobs must not inherit the 20,000 open files of the process that starts gpurun. They get three,
// and the limit that they would have without gpurun.
func TestJobsInheritNoOpenFiles(t *testing.T) {
	t.Parallel()
	l := batch(t, `jobs:
  - {name: "j{i}", matrix: {i: "1..50"}, gpus: 0, run: "ls /proc/self/fd | wc -l >DIR/fds.{i}; ulimit -Sn >DIR/limit.{i}"}
`)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const script = `h=$(ulimit -Hn); if [ "$h" = unlimited ] || [ "$h" -gt 21000 ]; then h=21000; fi
ulimit -Sn "$h" && echo "$h" >DIR/limit
last=$((h - 500)); if [ "$last" -gt 20000 ]; then last=20000; fi
n=10; while [ $n -lt $last ]; do eval "exec $n</dev/null"; n=$((n + 1)); done
exec "$@"`
	r := l.start(bash, "-c", strings.ReplaceAll(script, "DIR", l.dir), "bash")
	if !r.wait(patience) {
		t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	l.ended(r, 0)
	want, err := os.ReadFile(filepath.Join(l.dir, "limit"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 50; i++ {
		fds, _ := os.ReadFile(fmt.Sprintf("%s/fds.%d", l.dir, i))
		limit, _ := os.ReadFile(fmt.Sprintf("%s/limit.%d", l.dir, i))
		if n := strings.TrimSpace(string(fds)); n != "4" { // ls opens the fourth
			t.Fatalf("job %d has %s open files", i, n)
		}
		if string(limit) != string(want) {
			t.Fatalf("job %d has a limit of %s files, want %s", i, limit, want)
		}
	}
}

// A low limit on open files is enough for many concurrent jobs, or the error names that limit.
func TestFewDescriptorsAreEnough(t *testing.T) {
	t.Parallel()
	l := batch(t, `settings: {max_concurrent: 100}
jobs:
  - {name: "j{i}", matrix: {i: "1..100"}, gpus: 0, cpus: 0, run: "sleep 0.5"}
`)
	r := l.start("sh", "-c", `ulimit -n 64; exec "$@"`, "sh")
	if !r.wait(patience) {
		t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	l.ended(r, 0, 1)
	if r.code() == 1 {
		l.says(r, "too many open files")
		for range 10 {
			if r = l.run(0, 1); r.code() == 0 {
				break
			}
		}
		l.ended(r, 0)
	}
	noneLeft(t, l.mark)
}

// A run works on a file system without flock, and respects a run on another host.
func TestRunWithoutFlock(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("no strace")
	}
	l := batch(t, "jobs:\n  - {name: a, gpus: 1, gpu_memory: 1GiB, run: \"true\"}\n")
	noFlock := []string{"strace", "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-P", filepath.Join(l.state, "lock"), "-e", "inject=flock:error=ENOLCK"}
	r := l.start(noFlock...)
	if !r.wait(patience) {
		t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	if strings.Contains(r.out.String(), "strace:") {
		t.Skip(r.out.String())
	}
	l.ended(r, 0)
	lock := `{"pid":4711,"host":"elsewhere","boot_id":"x","since":"2026-01-02T03:04:05Z"}`
	if err := os.WriteFile(filepath.Join(l.state, "lock"), []byte(lock), 0o644); err != nil {
		t.Fatal(err)
	}
	r = l.start(noFlock...)
	r.wait(patience)
	l.ended(r, 4)
	l.says(r, "elsewhere", "4711")
}

// A run in another PID namespace keeps its lock, and its PID must not be mistaken for one in this
// namespace, with or without flock.
func TestLockInAnotherPIDNamespaceIsRespected(t *testing.T) {
	t.Parallel()
	inside := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(inside[0], append(inside[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("cannot use PID namespaces here: %v %s", err, out)
	}
	l := batch(t, "settings: {grace: 1s}\njobs:\n  - {name: long, gpus: 0, run: \": >DIR/up; sleep 60\"}\n")
	r := l.start(inside...)
	until(t, "the job", patience, func() bool { return exists(filepath.Join(l.dir, "up")) })
	second := l.start()
	second.wait(patience)
	l.ended(second, 4)
	l.says(second, "is already running as process", "in another PID namespace (a container)")
	if _, err := exec.LookPath("strace"); err == nil {
		second = l.start("strace", "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e", "inject=flock:error=ENOLCK")
		second.wait(patience)
		if !strings.Contains(second.out.String(), "strace:") {
			l.ended(second, 4)
			l.says(second, "in another PID namespace (a container)")
		}
	}
	l.kill(r)
}

// gpurun refuses to guess what became of attempts in another PID namespace.
func TestAttemptInAnotherPIDNamespaceIsNotJudged(t *testing.T) {
	t.Parallel()
	inside := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(inside[0], append(inside[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("cannot use PID namespaces here: %v %s", err, out)
	}
	l := batch(t, "settings: {grace: 1s}\njobs:\n  - {name: train-3, gpus: 0, run: \": >DIR/up; while test -d DIR && ! test -e DIR/go; do sleep 0.05; done\"}\n")
	r := l.start()
	until(t, "the job", patience, func() bool { return exists(filepath.Join(l.dir, "up")) })
	l.kill(r)
	r = l.start(inside...)
	r.wait(patience)
	l.ended(r, 4)
	l.says(r, "train-3 (started ", "may still be running on this machine", "in another PID namespace", "--abandon")
	l.write(t, "go", "")
	l.says(l.run(0), "1 of 1 done")
	if n := len(readLedger(t, filepath.Join(l.state, "ledger.jsonl")).order); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

// With /proc hidden from other users, running, dying and adopting must work as usual.
func TestRunWithHiddenProc(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can hide /proc")
	}
	hidden := []string{"unshare", "--mount", "sh", "-c", `mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`, "sh"}
	if out, err := exec.Command(hidden[0], append(hidden[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("cannot hide /proc here: %v %s", err, out)
	}
	l := batch(t, "jobs:\n  - {name: a, gpus: 1, gpu_memory: 1GiB, run: \": >DIR/up; sleep 2; exit 0\"}\n  - {name: b, gpus: 0, leftovers: kill, run: \"setsid sleep 100 & exit 0\"}\nsettings: {grace: 1s}\n")
	for path := l.dir; path != "/"; path = filepath.Dir(path) {
		if fi, err := os.Stat(path); err == nil && fi.Mode()&0o5 != 0o5 {
			_ = os.Chmod(path, fi.Mode()|0o5)
		}
	}
	_ = os.Chmod(filepath.Dir(gpurun), 0o755)
	_ = os.Chown(l.dir, 65534, 65534)
	for _, name := range []string{"lane", "claims"} {
		_ = os.Chown(filepath.Join(l.dir, name), 65534, 65534)
	}
	r := l.start(hidden...)
	until(t, "the job", patience, func() bool {
		if r.over() {
			t.Fatal(r.out.String())
		}
		return exists(filepath.Join(l.dir, "up"))
	})
	l.kill(r)
	r = l.start(hidden...)
	if !r.wait(patience) {
		t.Fatal(dump(r))
	}
	l.ended(r, 0)
	if n := len(readLedger(t, filepath.Join(l.state, "ledger.jsonl")).order); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	noneLeft(t, l.mark)
}

// If no GPU can be read any more, CPU jobs keep running, and the run reports why it gives up. One
// lost GPU must not keep jobs off the others.
func TestRunGivesUpWithoutReadings(t *testing.T) {
	t.Parallel()
	const jobs = `settings: {poll: 1s, max_wait: 2s}
jobs:
  - {name: cpu, gpus: 0, run: "sleep 1"}
  - {name: train, needs: [cpu], gpus: 1, gpu_memory: 20GiB, run: "true"}
  - {name: other, needs: [cpu], gpus: 0, run: "true"}
`
	for _, c := range []struct {
		name, sim string
		code      int
		says      []string
	}{
		{"no readings", "gpus: [{memory: 24GiB}]\noutages: [{from: 200ms, error: the driver is reloaded}]\n", 124,
			[]string{"gave up waiting for a GPU: train", "no readings: the driver is reloaded", "cannot read the GPUs, so no more jobs start", "2 of 3 done, 1 did not run"}},
		{"only GPU is lost", "gpus: [{memory: 24GiB, fails: [{from: 200ms, error: GPU is lost}]}]\n", 124,
			[]string{"gave up waiting for a GPU: train", "GPU 0 does not answer, so no job starts on it until it does: GPU is lost", "2 of 3 done, 1 did not run"}},
		{"one of two GPUs is lost", "gpus: [{memory: 24GiB, fails: [{from: 200ms, error: GPU is lost}]}, {memory: 24GiB}]\n", 0,
			[]string{"GPU 0 does not answer, so no job starts on it until it does: GPU is lost", "3 of 3 done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := batch(t, jobs)
			l.write(t, "gpus.yaml", c.sim)
			l.says(l.run(c.code), c.says...)
		})
	}
}

// While no GPU can be read, no job starts, but the run notices ends. It continues when readings are
// back. A busy machine gets a later and longer outage, so that the first job starts
// before it and ends in it.
func TestRunContinuesAfterOutageOfReadings(t *testing.T) {
	t.Parallel()
	for from := 3 * time.Second; ; from *= 4 {
		to := 4 * from
		l := batch(t, fmt.Sprintf(`settings: {poll: 1s}
jobs:
  - {name: first, gpus: 1, gpu_memory: 20GiB, run: "sleep %d"}
  - {name: second, gpus: 1, gpu_memory: 20GiB, run: "true"}
`, from/time.Second+1))
		l.write(t, "gpus.yaml", fmt.Sprintf("gpus: [{memory: 24GiB}]\noutages: [{from: %v, to: %v, error: the driver is reloaded}]\n", from, to))
		began := time.Now()
		r := l.run(0)
		led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
		first, second := led.attempts[led.order[0]], led.attempts[led.order[1]]
		if at := second.start.Time.Sub(began); at < to-100*time.Millisecond {
			t.Fatalf("the second job started after %v, before readings were back after %v:\n%s", at, to, r.out.String())
		}
		at := first.end.Time.Sub(began)
		if at < to {
			return
		}
		if from > 40*time.Second {
			t.Fatalf("the run noticed the first job's end after %v, want before readings were back after %v", at, to)
		}
	}
}
