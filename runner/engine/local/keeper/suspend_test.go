package keeper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
	"gpurun/state/host"
)

// A suspended attempt continues in order to save its work, and must not be suspended again before
// it ends.
func TestSuspendedAttemptContinuesToSave(t *testing.T) {
	const folder = "GPURUN_TEST_SUSPENDED"
	dir := os.Getenv(folder)
	if dir == "" { // run in a child process, because Single treats all children of its process as its own
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), folder+"="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := os.WriteFile(filepath.Join(dir, wire.StatusFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := &engine.Launch{
		Identity: engine.Identity{UniID: filepath.Base(filepath.Dir(dir)), Job: "j", Dir: dir, Grace: time.Second}, // unlike "u", which tests of other packages may end
		Command: engine.Command{
			Commands: []string{"trap 'sleep 0.1; exit 7' USR1; echo $$ >up.new; mv up.new up; while test -d $PWD; do sleep 0.05; done"},
			Env:      os.Environ(), WorkDir: dir,
		},
		Output: engine.Output{Stdout: filepath.Join(dir, "log"), Stderr: filepath.Join(dir, "log")},
	}
	asked, over := make(chan *wire.Message), make(chan struct{})
	go func() {
		until := func(what string, is func() bool) {
			for limit := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Errorf("not within a minute: %s", what)
					return
				}
			}
		}
		var text []byte
		until("the job runs", func() bool { text, _ = os.ReadFile(filepath.Join(dir, "up")); return len(text) > 0 })
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		asked <- &wire.Message{Op: wire.Suspend}
		until("the job is suspended", func() bool { s, _ := host.StatOf(pid); return s.State == 'T' })
		asked <- &wire.Message{Op: wire.Save, Why: state.WhyResize, Signal: "USR1", Wait: 10 * time.Second}
		for {
			select {
			case asked <- &wire.Message{Op: wire.Suspend}: // the cluster keeps the attempt suspended
				time.Sleep(10 * time.Millisecond)
			case <-over:
				return
			}
		}
	}()
	ended, err := Single(l, Usual, func(*wire.Message) {}, asked, nil)
	close(over)
	if err != nil || ended.ExitCode != 7 || ended.Why != state.WhyResize {
		t.Errorf("ended as %+v, %v, want exit 7 because of the resize", ended, err)
	}
}
