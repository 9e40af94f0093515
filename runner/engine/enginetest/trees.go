package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gpurun/runner/engine"
)

// daemon is a shell command that leaves a daemon behind, detached from its parent,
// session, output and folder. The daemon writes its PID to $DIR/fifo.
const daemon = `(setsid sh -c '(cd /; echo $$ >/dev/null; exec sh -c "echo \$\$ >$DIR/fifo; exec sleep 1000" >/dev/null 2>&1) &') `

// stubborn ignores SIGTERM.
const stubborn = `trap "" TERM; `

// testTrees: an attempt is its whole process tree.
func testTrees(t *testing.T, open Opener) {
	b := newBench(t, open)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
	}
	run("a leftover child is ended", func(t *testing.T) {
		l := b.launch("sleep 1000 & echo $! >$DIR/fifo")
		fifo := b.fifo(l)
		b.engine.Launch(l)
		child := pid(t, hear(t, fifo))
		b.expect(b.end(l.UniID), outcome{LeftOver: 1})
		gone(t, child)
	})
	run("a leftover child that ignores SIGTERM gets the grace period", func(t *testing.T) {
		l := b.launch(stubborn + "sleep 1000 & echo $! >$DIR/fifo")
		l.Grace = 300 * time.Millisecond
		fifo := b.fifo(l)
		b.engine.Launch(l)
		child := pid(t, hear(t, fifo))
		began := time.Now()
		b.expect(b.end(l.UniID), outcome{LeftOver: 1})
		if d := time.Since(began); d < l.Grace {
			t.Errorf("it ended after %v, before its grace period of %v", d, l.Grace)
		}
		gone(t, child)
	})
	run("a leftover daemon is ended", func(t *testing.T) {
		l := b.launch(daemon + "; exit 5")
		fifo := b.fifo(l)
		b.engine.Launch(l)
		d := pid(t, hear(t, fifo))
		b.expect(b.end(l.UniID), outcome{Exit: 5, LeftOver: 1})
		gone(t, d)
	})
	run("a daemon without an environment is ended", func(t *testing.T) {
		l := b.launch("env -i DIR=$DIR PATH=\"$PATH\" " + daemon[1:len(daemon)-2])
		fifo := b.fifo(l)
		b.engine.Launch(l)
		d := pid(t, hear(t, fifo))
		b.expect(b.end(l.UniID), outcome{LeftOver: 1})
		gone(t, d)
	})
	run("a process that closes its output late is not a leftover", func(t *testing.T) {
		l := b.launch("(sleep 0.02; echo late) &")
		b.expect(b.run(l), outcome{})
		if got := b.log(l); got != "late\n" {
			t.Errorf("log = %q", got)
		}
	})
	run("Attempt knows the tree", func(t *testing.T) {
		l := b.launch(daemon + "; sleep 1000")
		fifo := b.fifo(l)
		r := b.start(l)
		d := pid(t, hear(t, fifo))
		for _, p := range []int{r.PID, d} {
			if got := b.engine.Attempt(p); got != l.UniID {
				t.Errorf("Attempt(%d) = %q, want %q", p, got, l.UniID)
			}
		}
		if got := b.engine.Attempt(os.Getpid()); got != "" {
			t.Errorf("Attempt of the runner = %q", got)
		}
		b.engine.Stop(l.UniID, "cancelled", engine.Kill)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGKILL", Why: "cancelled"})
		gone(t, d)
	})
	run("a tree job ends with its last process", func(t *testing.T) {
		l := b.launch("(read x <$DIR/fifo; echo later) & exit 0")
		l.Tree = true
		fifo := b.fifo(l)
		b.start(l)
		released := time.Now()
		if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		end := b.end(l.UniID)
		b.expect(end, outcome{})
		if end.At.Before(released) {
			t.Errorf("it ended at %v, with its last command; but its tree was running until at least %v", end.At, released)
		}
		if got := b.log(l); got != "later\n" {
			t.Errorf("log = %q", got)
		}
	})
	run("stop ends what the script reports as running", func(t *testing.T) {
		l := b.launch("exit 0")
		l.Tree, l.UniFile = true, filepath.Join(l.Dir, "uni_id.json")
		l.Commands[0] = fmt.Sprintf(`read p <$DIR/fifo; printf '{"%s": {"pid": %%d, "state": "running"}}' $p >%s`, l.UniID, l.UniFile)
		fifo := b.fifo(l)
		r := b.start(l)
		other := exec.Command("sleep", "1000")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer other.Process.Kill()
		if err := os.WriteFile(fifo, fmt.Appendln(nil, other.Process.Pid), 0o600); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, r.PID)
		b.engine.Stop(l.UniID, "cancelled", engine.Term)
		_ = other.Wait()
		b.expect(b.end(l.UniID), outcome{Why: "cancelled"})
	})
	for _, report := range []string{"normal_exit", "abnormal_exit"} {
		run("a tree job reports "+report, func(t *testing.T) {
			l := b.launch("")
			l.Tree = true
			l.UniFile = filepath.Join(l.Dir, "uni_id.json")
			l.Commands[0] = fmt.Sprintf(`printf '{"%s": {"pid": %%d, "state": "%s"}}' $$ >%s`, l.UniID, report, l.UniFile)
			b.expect(b.run(l), outcome{Report: report})
		})
	}
}

// gone fails the test unless a process has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	if alive(pid) {
		t.Errorf("process %d is still running", pid)
	}
}
