package torture

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A lane is one job file and the runners started for it.
type lane struct {
	*place
	t     testing.TB
	name  string
	jobs  []job
	file  string
	state string // folder
	user  uint32 // 0 for the user running the tests
	rng   *rand.Rand
	count *counts
	excuses
}

// counts are totals over all lanes.
type counts struct {
	mu                                                               sync.Mutex
	Runners, KillRunner, KillKeeper, KillBoth, Term, Pause, Rivals   int
	Touched                                                          int
	Stopped, Stalled                                                 int
	Traced, Starts, Attempts, Lost, Interrupted, Adopted, Rounds, On int
}

func (c *counts) add(n *int) {
	c.mu.Lock()
	*n++
	c.mu.Unlock()
}

func newLane(t testing.TB, p *place, name string, rng *rand.Rand, jobs []job, c *counts) *lane {
	t.Helper()
	dir := p.mkdir(t, name)
	counts := p.mkdir(t, name+"/counts")
	l := &lane{place: p, t: t, name: name, jobs: jobs, rng: rng, count: c}
	l.stills = p.still
	l.file = p.write(t, name+"/jobs.yaml", p.jobFile(jobs, p.journal, counts, name))
	l.state = filepath.Join(dir, ".gpurun", "jobs.yaml")
	return l
}

// A runner is a started gpurun, with its output.
type runner struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{} // closed when the process has been reaped
	mark string        // in its environment and that of its descendants
	log  string        // its run.log

	beaten  bool  // another runner already had the lock
	touched []int // additional exit statuses to expect, because its state was modified
}

// start starts a runner for the lane, under a wrapper such as strace if one is given.
func (l *lane) start(under ...string) *runner {
	return l.exec(append(append(under, gpurun, "run"), append(l.gpus, l.file)...))
}

// startWith is start with additional flags.
func (l *lane) startWith(flags ...string) *runner {
	return l.exec(append(append([]string{gpurun, "run"}, append(l.gpus, l.file)...), flags...))
}

func (l *lane) exec(argv []string) *runner {
	r := &runner{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), mark: l.mark, log: filepath.Join(l.state, "run.log")}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = l.environ(), &r.out, &r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: l.credential()}
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		l.t.Errorf("cannot start gpurun: %v", err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	l.count.add(&l.count.Runners)
	return r
}

// credential returns the credential of the lane's user; nil for the user running the tests.
func (l *lane) credential() *syscall.Credential {
	if l.user == 0 {
		return nil
	}
	return &syscall.Credential{Uid: l.user, Gid: l.user}
}

func (r *runner) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) }

func (r *runner) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// wait waits up to d for the runner to end.
func (r *runner) wait(d time.Duration) bool {
	for left := allow(d); ; {
		select {
		case <-r.done:
			return true
		case <-time.After(min(d, stillTick)):
			if left.over(time.Now()) {
				return r.over()
			}
		}
	}
}

// code returns the exit status, or the negative signal number.
func (r *runner) code() int {
	st, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && st.Signaled() {
		return -int(st.Signal())
	}
	return r.cmd.ProcessState.ExitCode()
}

// ended checks that a runner ended with one of these exit statuses.
func (l *lane) ended(r *runner, codes ...int) {
	l.t.Helper()
	if !r.over() {
		l.t.Fatalf("%s: gpurun did not end:\n%s", l.name, dump(r))
	}
	if got := r.code(); !slices.Contains(codes, got) {
		l.t.Errorf("%s: gpurun ended with %d, want one of %v:\n%s", l.name, got, codes, r.out.String())
	}
}

// killKeepers kills the lane's keepers and records when.
func (l *lane) killKeepers(pids []int) bool {
	if len(pids) == 0 {
		return false
	}
	l.keepers = append(l.keepers, seconds(time.Now()))
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	l.keepers = append(l.keepers, seconds(time.Now())) // a busy machine may have delayed the kills
	return true
}

// patience is how long a runner may take without faults.
const patience = 90 * time.Second

// finish runs the batch to its end. Jobs that failed permanently in one run are rerun by the next.
func (l *lane) finish() {
	for range 20 {
		r := l.start()
		if !r.wait(patience) {
			l.t.Errorf("%s: gpurun did not end:\n%s", l.name, dump(r))
			return
		}
		if l.ended(r, 0, 1); r.code() != 1 {
			return
		}
	}
	l.t.Errorf("%s: the batch was not finished after 20 runs", l.name)
}

// check verifies the finished lane and returns its attempts.
func (l *lane) check() []*attempt {
	t := l.t
	led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
	if led.torn > 0 {
		t.Errorf("%s: the ledger has %d torn lines", l.name, led.torn)
	}
	var notes []note
	for _, n := range readJournal(t, l.journal) {
		if n.lane == l.name {
			notes = append(notes, n)
		}
	}
	all := match(t, led, notes)
	for _, a := range all {
		a.bare = l.excuses.bare(a)
	}
	judge(t, l.jobs, led, all, l.excuses)
	if left, err := os.ReadDir(filepath.Join(l.state, "attempts")); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("%s: leftover attempt folders: %v %v", l.name, left, err)
	}
	l.tally(all)
	return byTime(all)
}

// gone checks that the lane's processes have ended and, unless a keeper was killed, that the
// keepers removed their sockets.
func (l *lane) gone() {
	l.t.Helper()
	noneLeft(l.t, l.mark)
	if len(l.keepers) > 0 {
		return
	}
	// noneLeft does not see a keeper during its exec, when its environment is empty.
	until(l.t, "the keepers of "+l.name+" to remove their sockets", patience, func() bool {
		left, _ := filepath.Glob(filepath.Join(l.state, "keeper-*.sock"))
		return len(left) == 0
	})
}

func (l *lane) tally(all map[string]*attempt) {
	c := l.count
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Attempts += len(all)
	for _, a := range all {
		if a.begun != nil {
			c.Starts++
		}
		if a.end != nil && a.end.State == "lost" {
			c.Lost++
		}
		if a.end != nil && a.end.State == "interrupted" {
			c.Interrupted++
		}
	}
}

func (c *counts) String() string {
	return fmt.Sprintf("%d rounds, %d runners; killed: %d runners, %d keepers, %d both at once, %d in a system call; %d SIGTERM, %d SIGSTOP, %d keepers stopped for long, %d readers stalled, %d rivals, %d ledgers or locks removed; %d attempts, %d of them ran, %d lost, %d interrupted; at most %d on one GPU",
		c.Rounds, c.Runners, c.KillRunner, c.KillKeeper, c.KillBoth, c.Traced, c.Term, c.Pause, c.Stopped, c.Stalled, c.Rivals, c.Touched, c.Attempts, c.Starts, c.Lost, c.Interrupted, c.On)
}
