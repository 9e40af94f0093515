package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
)

// background waits for the event that the attempt continues in the background.
func (s *scene) background() engine.Background {
	s.Helper()
	for {
		ev := s.next()
		if ev.Background != nil {
			return *ev.Background
		}
		if ev.Ended != nil {
			s.Fatalf("ended without an event Background: %+v", *ev.Ended)
		}
	}
}

// Leftover processes must be ended even without a keeper, because they could hold the GPUs forever.
func TestLeftoversAreEndedWithoutKeeper(t *testing.T) {
	for _, runner := range []string{"alive", "new"} {
		t.Run(runner, func(t *testing.T) {
			s := newScene(t, "setsid sleep 1000 & read x <fifo")
			s.start()
			if runner == "new" {
				s.engine.Close()
			}
			s.killKeeper()
			if runner == "new" {
				s.open()
				s.adopt()
			}
			s.goOn()
			got := s.ended()
			if !got.Lost || got.LeftOver != 1 {
				t.Errorf("got %+v, want it lost, with 1 leftover process", got)
			}
		})
	}
}

// If a keeper is killed while it creates a process, its record lacks the process, which then looks
// like a leftover one. So a tree that has just begun is ended. An older one is followed to its end.
func TestYoungTreeOfKilledKeeperIsEnded(t *testing.T) {
	for _, age := range []time.Duration{0, time.Hour, -time.Hour} { // the clock may have been set back
		t.Run(age.String(), func(t *testing.T) {
			s := newScene(t, "setsid sh -c 'read x <fifo; sleep 0.1; >whole' & exit 0")
			s.launch.Leftovers, s.launch.Grant.UUIDs = engine.LeftoversAuto, []gpu.UUID{"GPU-1"}
			s.start()
			s.run.PID = s.background().PID
			s.rewrite(func(rec *wire.Record) { rec.Roots, rec.Latest = make([]procs.ID, 1), time.Now().Add(-age) })
			s.killKeeper()
			if age != 0 {
				s.goOn()
			}
			if got := s.ended(); !got.Lost {
				t.Errorf("got %+v, want it lost", got)
			}
			if _, err := os.Stat(filepath.Join(s.launch.WorkDir, "whole")); (err == nil) != (age != 0) {
				t.Errorf("tree completed: %v, want %v", err == nil, age != 0)
			}
		})
	}
}

// Processes that a launcher leaves running are the job. They continue even without the keeper.
func TestBackgroundJobContinuesWithoutKeeper(t *testing.T) {
	for _, runner := range []string{"alive", "new"} {
		t.Run(runner, func(t *testing.T) {
			s := newScene(t, "sh -c 'read x <fifo' & exit 0")
			s.launch.Leftovers, s.launch.Grant.UUIDs = engine.LeftoversAuto, []gpu.UUID{"GPU-1"}
			s.start()
			pid := s.background().PID
			s.run.PID = pid // by now a child of the keeper
			if runner == "new" {
				s.engine.Close()
			}
			s.killKeeper()
			if runner == "new" {
				s.open()
				s.adopt()
				if again := s.background(); again.PID != pid {
					t.Errorf("got %+v in the background, want process %d", again, pid)
				}
			}
			s.goOn()
			if got := s.ended(); !got.Lost || got.LeftOver != 0 {
				t.Errorf("got %+v, want it lost, without leftover processes", got)
			}
		})
	}
}

// Processes that a launcher leaves running are ended after a while if they use no GPU. The attempt
// fails.
func TestBackgroundWithoutGPUIsEnded(t *testing.T) {
	t.Setenv(onGPUWithinEnv, "1ms")
	s := newScene(t, `sleep 1000 & until read name </proc/$!/comm && [ "$name" = sleep ]; do :; done`)
	s.launch.Leftovers, s.launch.Grant.UUIDs = engine.LeftoversAuto, []gpu.UUID{"GPU-1"}
	s.start()
	pid := s.background().PID
	got := s.ended()
	if !strings.Contains(got.LeftRunning, "sleep "+strconv.Itoa(pid)) || !strings.Contains(got.LeftRunning, "used no GPU") {
		t.Errorf("LeftRunning is %q, want the process and the reason", got.LeftRunning)
	}
}

// A job without GPUs fails if a process that its script left in the background fails soon, but not
// if the script killed that process.
func TestCrashInBackgroundWithoutGPUs(t *testing.T) {
	for _, c := range []struct {
		name, ends string
		exit       int
	}{{"crash", "exit 3", 3}, {"success", "exit 0", 0}, {"killed server", "exit 143", 0}, {"reader gone", "exit 141", 0}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, "(while kill -0 $$; do sleep 0.02; done; read x <fifo; sleep 0.2; "+c.ends+") & exit 0")
			s.launch.Leftovers = engine.LeftoversAuto
			s.start()
			s.goOn()
			if got := s.ended(); got.ExitCode != c.exit || got.LeftRunning != "" || got.LeftOver != 0 {
				t.Errorf("got %+v, want exit %d", got, c.exit)
			}
		})
	}
}

// A script that starts a server, uses it and kills it has not failed, even if the server takes a
// moment to end. A server that exits with another status, or a launcher's job that is killed, has
// failed.
func TestKilledServerIsNotAFailure(t *testing.T) {
	for _, c := range []struct {
		name, server string
		served       string
		exit         int
		signal       string
	}{
		{"server killed by the script", "trap 'read y <fifo; exit 143' TERM", "1ms", 0, ""},
		{"server fails while it is killed", "trap 'read y <fifo; exit 3' TERM", "1ms", 3, ""},
		{"launcher's job killed", "trap 'read y <fifo; exit 143' TERM", "1h", 143, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(servedEnv, c.served)
			s := newScene(t, "("+c.server+"; echo up >fifo; while test -d $PWD; do sleep 0.05; done) & read x <fifo; kill $!")
			s.launch.Leftovers, s.launch.Grant.UUIDs = engine.LeftoversAuto, []gpu.UUID{"GPU-1"}
			s.start()
			pid := s.background().PID
			s.engine.OnGPU(s.launch.UniID, []int{pid})
			s.goOn()
			if got := s.ended(); got.ExitCode != c.exit || got.Signal != c.signal || got.LeftRunning != "" {
				t.Errorf("got %+v, want exit %d", got, c.exit)
			}
		})
	}
}

// If the leader ends between the scan of its tree and the wait, the runner must not wait for the
// leftover processes, because they may never end.
func TestRunnerDoesNotWaitForLeftovers(t *testing.T) {
	l := newLocal(engine.Config{})
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leader, ok := procs.One(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil || !ok {
		t.Fatal(err, ok)
	}
	self, _ := procs.One(os.Getpid())
	w := watch{l: l, e: newEntry(engine.Attempt{}), rec: &wire.Record{}, leader: leader.ID}
	waited := make(chan bool, 1)
	go func() { waited <- w.wait([]procs.ID{leader.ID, self.ID}) }()
	select {
	case <-waited:
	case <-time.After(patience):
		close(l.stop)
		t.Error("the runner waits for leftover processes")
	}
}
