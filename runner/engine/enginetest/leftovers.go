package enginetest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// testLeftovers: processes that outlive the commands keep running or are ended, as configured.
func testLeftovers(t *testing.T, open Opener) {
	b := newBench(t, open)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
	}
	onGPU := func(script string) engine.Launch {
		l := b.launch(script)
		l.Leftovers, l.Grant = engine.LeftoversAuto, gpu.Grant{UUIDs: []gpu.UUID{"GPU-1"}}
		return l
	}
	// behind launches l, whose leftovers block on the fifo, and releases them.
	behind := func(l engine.Launch, seen bool) engine.Ended {
		fifo := b.fifo(l)
		b.start(l)
		bg := b.background(l.UniID)
		if bg.Text == "" {
			t.Error("the background process has no description")
		}
		if seen {
			b.engine.OnGPU(l.UniID, []int{bg.PID})
		}
		if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return b.end(l.UniID)
	}
	run("waits for what a launcher left", func(t *testing.T) {
		l := onGPU("nohup sh -c 'read x <$DIR/fifo; echo trained' 2>/dev/null &")
		b.expect(behind(l, true), outcome{})
		if got := b.log(l); got != "trained\n" {
			t.Errorf("log = %q", got)
		}
	})
	run("its failure fails the attempt", func(t *testing.T) {
		b.expect(behind(onGPU("(read x <$DIR/fifo; exit 3) &"), true), outcome{Exit: 3})
	})
	run("its failure fails the attempt before it was seen on a GPU", func(t *testing.T) {
		b.expect(behind(onGPU("(read x <$DIR/fifo; exit 3) &"), false), outcome{Exit: 3})
	})
	run("a process on no GPU does not count next to one that was", func(t *testing.T) {
		l := onGPU("(until test -e $DIR/seen; do sleep 0.01; done; exit 3) & (read x <$DIR/fifo; exit 0) & echo $! >$DIR/main")
		fifo := b.fifo(l)
		b.start(l)
		shown := b.background(l.UniID)
		text, _ := os.ReadFile(filepath.Join(l.Dir, "main"))
		main, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		b.engine.OnGPU(l.UniID, []int{main})
		for shown.PID != main { // the keeper shows it first once it knows
			shown = b.background(l.UniID)
		}
		for _, name := range []string{filepath.Join(l.Dir, "seen"), fifo} {
			if err := os.WriteFile(name, []byte("go\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.expect(b.end(l.UniID), outcome{})
	})
	run("an output filter does not count", func(t *testing.T) {
		l := onGPU("(read x <$DIR/fifo) > >(cat; exit 1) & exit 0")
		l.Shell = []string{"bash", "-c"}
		b.expect(behind(l, false), outcome{})
	})
	run("command not found fails the attempt", func(t *testing.T) {
		b.expect(b.run(onGPU("exec 2>/dev/null; nosuchcommand & exit 0")), outcome{Exit: 127})
	})
	run("a failed job's leftovers are ended", func(t *testing.T) {
		b.expect(b.run(onGPU("sleep 1000 & exit 4")), outcome{Exit: 4, LeftOver: 1})
	})
	run("a CPU job's leftovers are ended", func(t *testing.T) {
		l := b.launch("sleep 1000 &")
		l.Leftovers = engine.LeftoversAuto
		if e := b.run(l); e.LeftRunning == "" || e.LeftOver != 0 {
			t.Errorf("got LeftRunning %q, LeftOver %d", e.LeftRunning, e.LeftOver)
		}
	})
	run("wait", func(t *testing.T) {
		l := b.launch("(read x <$DIR/fifo; exit 5) &")
		l.Leftovers = engine.LeftoversWait
		b.expect(behind(l, false), outcome{Exit: 5})
	})
	run("kill", func(t *testing.T) {
		l := onGPU("sleep 1000 &")
		l.Leftovers = engine.LeftoversKill
		b.expect(b.run(l), outcome{})
	})
	run("fail", func(t *testing.T) {
		l := onGPU("sleep 1000 &")
		l.Leftovers = engine.LeftoversFail
		if e := b.run(l); e.LeftRunning == "" {
			t.Error("the attempt did not fail")
		}
	})
	run("stop ends it", func(t *testing.T) {
		l := onGPU("sleep 1000 &")
		b.start(l)
		b.background(l.UniID)
		b.engine.Stop(l.UniID, "cancelled", engine.Term)
		b.expect(b.end(l.UniID), outcome{Why: "cancelled"})
	})
}
