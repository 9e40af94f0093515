package torture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaveWithin is how soon gpurun ends at the third signal, on a busy machine too.
const leaveWithin = 3 * time.Second

// thrice sends SIGTERM three times, each one after gpurun has had time to see the one
// before: signals of one kind that come together are one.
func (r *runner) thrice(t *testing.T) {
	t.Helper()
	for range 3 {
		r.signal(syscall.SIGTERM)
		if r.wait(200 * time.Millisecond) {
			return
		}
	}
	if !r.wait(leaveWithin) {
		t.Fatalf("gpurun did not end at the third signal:\n%s", dump(r))
	}
}

// TestStoppedKeeper stops a keeper, kills its runner and runs the file again: gpurun
// says which process does not answer, stop says what it could not do, the third
// signal ends gpurun, and once the keeper goes on nothing has been lost.
func TestStoppedKeeper(t *testing.T) {
	l := alone(t, job{Name: "a", Kind: "plain", Plan: "0", Sleep: 1000})
	first := l.started(1)
	pids := keepers(l.mark, l.state)
	if len(pids) != 1 {
		t.Fatalf("got keepers %v, want one", pids)
	}
	_ = syscall.Kill(pids[0], syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pids[0], syscall.SIGCONT) })
	l.kill(first)
	silent := fmt.Sprintf("keeper %d does not answer (stopped? kill -CONT %[1]d)", pids[0])

	stop := l.exec([]string{gpurun, "stop", "--file", l.file})
	if !stop.wait(patience) {
		t.Fatalf("gpurun stop did not end:\n%s", dump(stop))
	}
	if l.ended(stop, 4); !strings.Contains(stop.out.String(), "not stopped: a") || !strings.Contains(stop.out.String(), silent) {
		t.Errorf("gpurun stop said:\n%s", stop.out.String())
	}

	out := filepath.Join(l.dir, "second.out")
	second := l.exec([]string{"sh", "-c", `exec "$@" >` + out + ` 2>&1`, "sh", gpurun, "run", "--sim", l.sim, l.file})
	until(t, "a word about the keeper", patience, func() bool {
		said, _ := os.ReadFile(out)
		return bytes.Contains(said, []byte(silent))
	})
	stop = l.exec([]string{gpurun, "stop", "--file", l.file})
	if !stop.wait(patience) {
		t.Fatalf("gpurun stop did not end:\n%s", dump(stop))
	}
	if l.ended(stop, 4); !strings.Contains(stop.out.String(), silent) {
		t.Errorf("gpurun stop said:\n%s", stop.out.String())
	}
	second.thrice(t)
	l.ended(second, 143)

	_ = syscall.Kill(pids[0], syscall.SIGCONT)
	if out, err := exec.Command(gpurun, "stop", "--file", l.file).CombinedOutput(); err != nil {
		t.Errorf("gpurun stop: %v\n%s", err, out)
	}
	if got := outcome(l.last()); !strings.HasPrefix(got, "cancelled") && !strings.HasPrefix(got, "interrupted") {
		t.Errorf("got %s", got)
	}
}

// TestReaderStalls runs a batch whose output nobody reads any more, as behind a pager:
// the run comes to its end, gives the file back, and a signal ends what is left.
func TestReaderStalls(t *testing.T) {
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", "jobs: [{name: \"a-{i}\", matrix: {i: 1..300}, gpus: 0, run: \"true\"}]\n")
	for _, c := range []struct {
		name  string
		inMid bool // the signals come while jobs run
	}{{"at the end", false}, {"in the middle", true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.inMid {
				p.write(t, "lane/jobs.yaml", "jobs: [{name: \"b-{i}\", matrix: {i: 1..300}, gpus: 0, run: 'trap \"\" TERM; if test {i} = 300; then sleep 1000; fi'}]\n")
			}
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if _, err := unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(gpurun, "run", l.file)
			cmd.Env, cmd.Stdout, cmd.Stderr = l.environ(), writer, writer
			r := &runner{cmd: cmd, done: make(chan struct{}), mark: l.mark, log: filepath.Join(l.state, "run.log")}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			go func() {
				_ = cmd.Wait()
				close(r.done)
			}()
			if !c.inMid {
				until(t, "the file to be given back", patience, func() bool {
					next := l.exec([]string{gpurun, "run", l.file})
					return next.wait(patience) && next.code() == 0
				})
				if r.over() {
					t.Error("the reader did not hold gpurun up; make it stall earlier")
				}
			} else {
				until(t, "the last job", patience, func() bool { return len(readLedger(t, filepath.Join(l.state, "ledger.jsonl")).order) >= 600 })
			}
			r.thrice(t)
			said, _ := io.ReadAll(reader)
			if len(said) > 8192 {
				t.Errorf("it wrote %d bytes into a pipe of 4096", len(said))
			}
			for _, pid := range keepers(l.mark, l.state) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}
