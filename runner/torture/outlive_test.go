package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// alone returns a lane with one job. The test must end the runner itself.
func alone(t *testing.T, j job) *lane {
	t.Helper()
	l := newLane(t, newPlace(t), "lane", nil, []job{j}, &counts{})
	t.Cleanup(l.gone)
	return l
}

// started starts a runner and waits until n jobs have written their first line.
func (l *lane) started(n int) *runner {
	l.t.Helper()
	r := l.start()
	l.awaitStarts(n)
	return r
}

func (l *lane) awaitStarts(n int) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("start %d", n), patience, func() bool { return len(l.notes("start")) >= n })
}

func (l *lane) notes(what string) []note {
	var found []note
	for _, n := range readJournal(l.t, l.journal) {
		if n.what == what {
			found = append(found, n)
		}
	}
	return found
}

// kill kills only the runner, with SIGKILL.
func (l *lane) kill(r *runner) {
	r.signal(syscall.SIGKILL)
	<-r.done
}

// run runs the lane without faults.
func (l *lane) run(codes ...int) *runner {
	l.t.Helper()
	r := l.start()
	if !r.wait(patience) {
		l.t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	l.ended(r, codes...)
	return r
}

// last returns the last attempt of a lane's job.
func (l *lane) last() *entry {
	l.t.Helper()
	led := readLedger(l.t, filepath.Join(l.state, "ledger.jsonl"))
	if len(led.order) == 0 {
		l.t.Fatal("the ledger has no attempt")
	}
	return led.attempts[led.order[len(led.order)-1]]
}

// outcome describes how an attempt ended.
func outcome(e *entry) string {
	if e.end == nil {
		return "open"
	}
	s := string(e.end.State)
	if e.end.ExitCode != nil {
		s += fmt.Sprintf(" (exit %d)", *e.end.ExitCode)
	}
	return s + " " + e.end.Signal
}

// A job outlives its runner. The next runner follows the job to its end, or finds that it has
// ended, with the correct status and duration in both cases.
func TestJobsOutliveTheirRunner(t *testing.T) {
	t.Parallel()
	const lasts = 1.5 // seconds
	for _, c := range []struct {
		name, plan string
		after      bool // run again after the job has ended
		code       int
		want       string
	}{
		{"adopted", "0", false, 0, "succeeded (exit 0) "},
		{"ended meanwhile", "0", true, 0, "succeeded (exit 0) "},
		{"failed meanwhile", "3", true, 1, "failed (exit 3) "},
		{"failed when adopted", "3", false, 1, "failed (exit 3) "},
		{"killed meanwhile", "k", true, 1, "failed SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			l := alone(t, job{Name: "train", Kind: "plain", GPUs: 1, Memory: 8, Plan: c.plan, Sleep: lasts})
			l.kill(l.started(1))
			var most time.Duration
			if c.after {
				until(t, "the end of the job", patience, func() bool { return len(l.notes("end")) == 1 })
				until(t, "the end of its keeper", patience, func() bool { return len(keepers(l.mark, l.state)) == 0 })
				most = time.Since(began)
			}
			r := l.run(0, 1)
			if most == 0 {
				most = time.Since(began)
			}
			if c.code == 1 { // this run may have rerun the failed job, so its exit status is not checked
				t.Log(r.out.String())
			}
			led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
			first := led.attempts[led.order[0]]
			if got := outcome(first); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			ran := l.notes("end")[0].at - l.notes("start")[0].at
			if first.end.Seconds < ran-0.1 || first.end.Seconds > most.Seconds() {
				t.Errorf("the ledger has %.2f s, but the job ran for %.2f s and ended within %v", first.end.Seconds, ran, most)
			}
			if c.code == 0 && (len(l.notes("start")) != 1 || r.code() != 0) {
				t.Errorf("%d starts and exit status %d, want 1 and 0", len(l.notes("start")), r.code())
			}
		})
	}
}

// An adopted job is shown as running since its actual start.
func TestAdoptedJobIsShownSinceItsStart(t *testing.T) {
	t.Parallel()
	l := alone(t, job{Name: "train", Kind: "plain", GPUs: 1, Memory: 8, Plan: "0", Sleep: 1000})
	r := l.started(1)
	pid := l.notes("start")[0].pid
	l.kill(r)
	killed := time.Now()
	r = l.start()
	var train schema.Attempt
	until(t, "the status of the new run", patience, func() bool {
		out, err := l.command("status", "--json", l.file)
		var v schema.Status
		if err != nil || json.Unmarshal(out, &v) != nil || v.Run == nil || !v.Run.Alive || v.Jobs[0].Attempt == nil {
			return false
		}
		train = *v.Jobs[0].Attempt
		return train.State == state.Running && train.PID != nil && *train.PID == pid
	})
	if got := *train.Started; got.After(killed) {
		t.Errorf("running since %v, want %v", got, l.last().start.Time)
	}
	endSleep(l.mark, 1000)
	if !r.wait(patience) {
		t.Fatal("gpurun did not end")
	}
	l.ended(r, 0)
}

// If runner and keeper are killed together, the next run must wait for the job, and never run it
// twice at the same time.
func TestJobNeverRunsTwiceIfKeeperDiesToo(t *testing.T) {
	t.Parallel()
	l := alone(t, job{Name: "train", Kind: "plain", GPUs: 1, Memory: 8, Plan: "0", Sleep: 1})
	r := l.started(1)
	pids := keepers(l.mark, l.state)
	r.signal(syscall.SIGKILL)
	if !l.killKeepers(pids) {
		t.Fatal("there was no keeper")
	}
	<-r.done
	r = l.run(0, 1)
	if r.code() == 1 {
		l.run(0)
	}
	l.check()
	led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
	if got := outcome(led.attempts[led.order[0]]); got != "lost " {
		t.Errorf("got %q, want lost", got)
	}
	if n := l.notes("start"); len(n) != 2 || n[1].at < l.notes("end")[0].at {
		t.Errorf("want two attempts that do not overlap: starts %v, ends %v", n, l.notes("end"))
	}
}

// A job whose SIGTERM handler writes a checkpoint and exits with 0 has not succeeded, even if the
// runner dies before recording its end.
func TestCheckpointIsNoSuccess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	mark := filepath.Join(p.dir, "up")
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", fmt.Sprintf(`settings: {grace: 20s}
jobs:
  - name: train
    gpus: 0
    run: |
      if [ -e %[1]q.done ]; then exit 0; fi
      trap ': >%[1]q.told; sleep 1; : >%[1]q.done; exit 0' TERM
      : >%[1]q
      sleep 100 & wait
`, mark))
	r := l.start()
	until(t, "the job", patience, func() bool { return exists(mark) })
	r.signal(syscall.SIGINT) // without a terminal, the first signal stops jobs
	until(t, "the stop in the ledger", patience, func() bool { return l.last().stop != nil })
	until(t, "the signal", patience, func() bool { return exists(mark + ".told") }) // a runner that is killed before it notifies its keeper stops nothing
	l.kill(r)
	l.run(0)
	led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
	if len(led.order) != 2 {
		t.Fatalf("%d attempts, want 2", len(led.order))
	}
	if got := led.attempts[led.order[0]].end; got.State != state.Interrupted {
		t.Errorf("got %s (%s), want interrupted", got.State, got.Reason)
	}
	if got := led.attempts[led.order[1]].end; got.State != state.Succeeded {
		t.Errorf("second attempt: got %s, want succeeded", got.State)
	}
	noneLeft(t, p.mark)
}

// command runs another gpurun command.
func (l *lane) command(args ...string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, gpurun, args...)
	cmd.Env = l.environ()
	return cmd.Output()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A timeout applies even while no runner is alive.
func TestTimeoutWithoutRunner(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", "settings: {grace: 1s}\njobs:\n  - {name: train, gpus: 0, timeout: 1s, run: 'echo up >&2; sleep 100'}\n")
	began := time.Now()
	r := l.start()
	log := filepath.Join(l.state, "logs", "train.log")
	until(t, "the job", patience, func() bool { b, _ := os.ReadFile(log); return strings.Contains(string(b), "up") })
	l.kill(r)
	until(t, "the end of the keeper", patience, func() bool { return len(keepers(p.mark, l.state)) == 0 })
	most := time.Since(began).Seconds()
	l.run(0, 1)
	led := readLedger(t, filepath.Join(l.state, "ledger.jsonl"))
	e := led.attempts[led.order[0]].end
	if e.State != state.Timeout || e.Seconds < 0.9 || e.Seconds > most {
		t.Errorf("got %s after %.1f s, want timeout after 1 s, at most %.1f s", e.State, e.Seconds, most)
	}
	killMarked(p.mark)
}
