package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These are the system calls of a start. Each is counted separately.
var (
	runnerCalls = []string{"openat", "mkdirat", "write", "pwrite64", "unlinkat", "renameat", "flock", "fsync", "clone", "clone3", "socketpair", "bind", "listen", "connect", "close", "fcntl", "newfstatat", "read", "epoll_pwait", "renameat2", "recvmsg"}
	keeperCalls = []string{"openat", "write", "pwrite64", "clone", "clone3", "getppid", "setsid", "read", "dup3", "chdir", "execve", "wait4", "waitid", "close", "newfstatat", "unlinkat", "linkat", "renameat", "renameat2", "flock", "ftruncate", "fstat", "pidfd_open", "fcntl", "chmod", "fchmod", "utimensat", "sendmsg", "kill", "pidfd_send_signal", "mkdirat", "mmap", "epoll_ctl"}
)

// TestKillBetweenSystemCallsLosesNothing kills a runner, or a keeper with the child it is creating,
// when it enters its n-th system call of some kind, and lets the next run finish the batch. By
// default, it does so a few times; with -torture.traced -1, for every n that a start reaches until
// the time is up.
func TestKillBetweenSystemCallsLosesNothing(t *testing.T) {
	among(t)
	if out, err := exec.Command("strace", "-f", "-b", "execve", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("cannot use strace here: %v %s", err, out)
	}
	s, c := someSeed(t), &counts{}
	sw := newSweep(s, map[string][]string{"runner": runnerCalls, "keeper": keeperCalls})
	end, most, i := time.Now().Add(budget()), *traced, 0
	for ; (most < 0 && time.Now().Before(end) || i < most) && !t.Failed(); i++ {
		l, n := sw.next()
		if l == nil {
			break
		}
		l.struck(n, oneTrace(t, l, n, c))
	}
	t.Logf("%d starts killed in a system call, %d runners, %d attempts, %d of them ran, %d lost", c.Traced, c.Runners, c.Attempts, c.Starts, c.Lost)
	if i >= 10 && c.Traced == 0 {
		t.Errorf("%d kills were tried, but none happened", i)
	}
	if most < 0 {
		t.Log(sw)
	}
}

// oneTrace injects one kill, and reports whether it happened.
func oneTrace(t *testing.T, at *line, n int, c *counts) (killed bool) {
	kill := (*lane).killRunnerAt
	if at.side == "keeper" {
		kill = (*lane).killKeeperAt
	}
	t.Run(fmt.Sprintf("%s/%s=%d", at.side, at.call, n), func(t *testing.T) {
		p := newPlace(t)
		jobs := []job{
			{Name: "gate", Kind: "plain", GPUs: 0, Plan: "0"},
			{Name: "one", Kind: "plain", GPUs: 1, Memory: 8, Plan: "0", Sleep: 0.02},
			{Name: "two", Kind: "daemon", GPUs: 2, Memory: 8, Plan: "3 0", Sleep: 0.02, Retry: 1},
		}
		l := newLane(t, p, "lane", rand.New(rand.NewPCG(1, 1)), jobs, c)
		killed = kill(l, at.call, n)
		if killed {
			c.add(&c.Traced)
		}
		l.finish()
		l.check()
		l.gone()
		holds(t, l.attemptsOf(), gpuMemory)
		if t.Failed() {
			keep(t, p)
		}
	})
	return killed
}

func (l *lane) attemptsOf() []*attempt {
	return byTime(match(l.t, readLedger(l.t, filepath.Join(l.state, "ledger.jsonl")), readJournal(l.t, l.journal)))
}

func inject(trace, call string, n int) []string {
	return []string{"strace", "-f", "-qq", "-o", trace, "-b", "execve", "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n)}
}

// killRunnerAt kills only the runner, because the tracer does not follow an exec.
func (l *lane) killRunnerAt(call string, n int) bool {
	trace := filepath.Join(l.dir, "trace")
	r := l.start(inject(trace, call, n)...)
	if !r.wait(patience) {
		l.t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	if strings.Contains(r.out.String(), "strace:") {
		l.t.Skip(r.out.String())
	}
	l.ended(r, 0, -int(syscall.SIGKILL))
	return struckDown(trace)
}

// struckDown reports whether the traced process was killed.
func struckDown(trace string) bool {
	b, _ := os.ReadFile(trace)
	return strings.Contains(string(b), "killed by SIGKILL")
}

// gated makes the first job block the batch until the gate is opened.
func (l *lane) gated() (gate string) {
	gate = filepath.Join(l.dir, l.name, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		l.t.Fatal(err)
	}
	b, err := os.ReadFile(l.file)
	if err != nil {
		l.t.Fatal(err)
	}
	text := strings.Replace(string(b), "run: .", fmt.Sprintf("run: test -e %q || read -r x <%q; .", gate+".open", gate), 1)
	text = strings.Replace(text, "settings: {", "settings: {max_concurrent: 1, ", 1)
	l.write(l.t, l.name+"/jobs.yaml", text)
	return gate
}

// atGate waits until the first job is at the gate, and returns the gate and the PID of the lane's
// keeper.
func (l *lane) atGate(gate string) (*os.File, int) {
	var f *os.File
	until(l.t, "the first job", patience, func() bool { // the gate cannot be opened before the job reads
		var err error
		f, err = os.OpenFile(gate, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	pids := keepers(l.mark, l.state)
	if len(pids) != 1 {
		l.t.Fatalf("got keepers %v, want one", pids)
	}
	return f, pids[0]
}

// open releases the first job, and its later attempts, for which nothing writes to the gate.
func (l *lane) open(gate *os.File) {
	l.write(l.t, l.name+"/gate.open", "")
	fmt.Fprintln(gate, "go")
	gate.Close()
}

// killKeeperAt kills the keeper, or its child before its exec. The first job blocks the batch until
// the tracer is attached, or has already killed the keeper in a call in progress.
func (l *lane) killKeeperAt(call string, n int) bool {
	trace, gate := filepath.Join(l.dir, "trace"), l.gated()
	r := l.start()
	f, pid := l.atGate(gate)
	struck := seconds(time.Now())
	tracer := exec.Command("strace", append(inject(trace, call, n)[1:], "-p", fmt.Sprint(pid))...)
	if err := tracer.Start(); err != nil {
		l.t.Fatal(err)
	}
	until(l.t, "the tracer", patience, func() bool { return isTraced(pid) || zombie(fmt.Sprintf("/proc/%d", pid)) })
	l.open(f)
	if !r.wait(patience) {
		l.t.Errorf("gpurun did not end:\n%s", dump(r))
	}
	hung := time.AfterFunc(patience, func() { _ = tracer.Process.Kill() })
	_ = tracer.Wait()
	hung.Stop()
	for at := struck; at <= seconds(time.Now())+0.1; at += 0.1 {
		l.traced = append(l.traced, at)
		l.keepers = append(l.keepers, at)
	}
	l.ended(r, 0, 1)
	return struckDown(trace)
}

// isTraced reports whether all threads of a process have a tracer.
func isTraced(pid int) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), "TracerPid:\t0\n") {
			return false
		}
	}
	return len(paths) > 0
}
