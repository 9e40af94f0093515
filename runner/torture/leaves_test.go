package torture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// thrice sends SIGTERM three times, and waits until gpurun has noticed each and is idle again,
// because simultaneous signals are merged.
func (r *runner) thrice(t testing.TB) {
	t.Helper()
	for range 3 {
		r.signal(syscall.SIGTERM)
		if r.wait(200 * time.Millisecond) {
			return
		}
		until(t, "gpurun to notice a signal", patience, func() bool { return !strings.ContainsAny(waitsIn(r.cmd.Process.Pid), "RD") })
	}
	within := 3 * time.Second
	if !strict() { // other tests keep the machine busy
		within = patience
	}
	if !r.wait(within) {
		t.Errorf("gpurun did not end after the third signal:\n%s", dump(r))
	}
}

// stopKeepers stops the keepers for longer than their runner takes to notice, sometimes ends the
// runner, and continues the keepers.
func (l *lane) stopKeepers(r *runner) {
	l.count.add(&l.count.Stopped)
	from := seconds(time.Now())
	defer func() { l.stills.note(from, seconds(time.Now())) }() // ends in this period are noticed later
	pids := keepers(l.mark, l.state)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	r.wait(8 * time.Second)
	if l.rng.IntN(2) == 0 && !r.over() {
		r.thrice(l.t)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// stall starts a runner whose output is not read, and ends it with three signals.
func (l *lane) stall() {
	l.count.add(&l.count.Stalled)
	r, reader := l.startStalled(gpurun, "run", "--sim", l.sim, l.file)
	defer reader.Close()
	r.wait(time.Duration(l.rng.IntN(1500)) * time.Millisecond)
	r.thrice(l.t)
	l.ended(r, 0, 1, 143, -int(syscall.SIGTERM))
}

// startStalled starts a runner that writes to a pipe of 4 KiB.
func (l *lane) startStalled(argv ...string) (*runner, *os.File) {
	reader, writer, err := os.Pipe()
	if err == nil {
		_, err = unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, 4096)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	defer writer.Close()
	r := &runner{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), mark: l.mark, log: filepath.Join(l.state, "run.log")}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = l.environ(), writer, writer
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.credential()}
	if err := r.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	l.count.add(&l.count.Runners)
	return r, reader
}

// killTraceless kills daemons without any connection to gpurun.
func killTraceless(mark string) { endSleep(mark, 302) }

// endSleep kills the processes in a place that sleep for this long, so that their jobs continue.
func endSleep(mark string, seconds int) {
	for _, p := range marked(mark) {
		if p.argv == fmt.Sprint("sleep ", seconds) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// TestStoppedKeeperLosesNothing stops a keeper, kills its runner and runs the file again. gpurun
// reports which process does not respond, gpurun stop reports which jobs it could not stop, and the
// third signal ends gpurun. Once the keeper continues, nothing is lost.
func TestStoppedKeeperLosesNothing(t *testing.T) {
	t.Parallel()
	l := alone(t, job{Name: "a", Kind: "plain", Plan: "0", Sleep: 1000})
	first := l.started(1)
	pids := keepers(l.mark, l.state)
	if len(pids) != 1 {
		t.Fatalf("got keepers %v, want one", pids)
	}
	_ = syscall.Kill(pids[0], syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pids[0], syscall.SIGCONT) })
	l.kill(first)
	silent := fmt.Sprintf("keeper %d does not answer: if it is stopped, run kill -CONT %[1]d", pids[0])

	stop := l.exec([]string{gpurun, "stop", "--file", l.file})
	if !stop.wait(patience) {
		t.Fatalf("gpurun stop did not end:\n%s", dump(stop))
	}
	if l.ended(stop, 4); !strings.Contains(stop.out.String(), "not stopped: a") || !strings.Contains(stop.out.String(), silent) {
		t.Errorf("gpurun stop printed:\n%s", stop.out.String())
	}

	out := filepath.Join(l.dir, "second.out")
	second := l.exec([]string{"sh", "-c", `exec "$@" >` + out + ` 2>&1`, "sh", gpurun, "run", "--sim", l.sim, l.file})
	until(t, "the second run to report the keeper", patience, func() bool {
		said, _ := os.ReadFile(out)
		return bytes.Contains(said, []byte(silent))
	})
	stop = l.exec([]string{gpurun, "stop", "--file", l.file})
	if !stop.wait(patience) {
		t.Fatalf("gpurun stop did not end:\n%s", dump(stop))
	}
	if l.ended(stop, 4); !strings.Contains(stop.out.String(), silent) {
		t.Errorf("gpurun stop printed:\n%s", stop.out.String())
	}
	second.thrice(t)
	l.ended(second, 143)

	_ = syscall.Kill(pids[0], syscall.SIGCONT)
	stop = l.exec([]string{gpurun, "stop", "--file", l.file})
	if !stop.wait(patience) {
		t.Fatalf("gpurun stop did not end:\n%s", dump(stop))
	}
	l.ended(stop, 0)
	if got := outcome(l.last()); !strings.HasPrefix(got, "cancelled") && !strings.HasPrefix(got, "interrupted") {
		t.Errorf("got %q, want cancelled or interrupted", got)
	}
}

// TestStalledReaderDoesNotBlockRun runs a batch whose output is no longer read, as with a pager.
// The run must finish and unlock the file, and signals must end the remaining process.
func TestStalledReaderDoesNotBlockRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", "jobs: [{name: \"a-{i}\", matrix: {i: 1..300}, gpus: 0, run: \"true\"}]\n")
	for _, c := range []struct {
		name  string
		inMid bool // send the signals while jobs are running
	}{{"after the last job", false}, {"while a job runs", true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.inMid {
				p.write(t, "lane/jobs.yaml", "jobs: [{name: \"b-{i}\", matrix: {i: 1..300}, gpus: 0, run: 'trap \"\" TERM; if test {i} = 300; then sleep 1000; fi'}]\n")
			}
			r, reader := l.startStalled(gpurun, "run", l.file)
			defer reader.Close()
			if !c.inMid {
				until(t, "the ledger", patience, func() bool { return exists(filepath.Join(l.state, "ledger.jsonl")) })
				until(t, "the run to unlock the file", patience, func() bool {
					next := l.exec([]string{gpurun, "run", l.file})
					return next.wait(patience) && next.code() == 0
				})
				if r.over() {
					t.Error("gpurun ended although nothing read its output; this test needs more output")
				}
			} else {
				until(t, "the last job", patience, func() bool {
					return slices.ContainsFunc(marked(l.mark), func(p process) bool { return p.argv == "sleep 1000" })
				})
			}
			r.thrice(t)
			_ = reader.SetReadDeadline(time.Now().Add(patience))
			said, err := io.ReadAll(reader)
			if err != nil || len(said) > 8192 {
				t.Errorf("gpurun wrote %d bytes to a pipe of 4096: %v", len(said), err)
			}
			for _, pid := range keepers(l.mark, l.state) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}
