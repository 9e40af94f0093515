package enginetest

import (
	"fmt"
	"os"
	"testing"

	"gpurun/runner/engine"
	"gpurun/state"
)

// testAdoption: attempts outlive their run.
func testAdoption(t *testing.T, open Opener) {
	adopt := func(b *bench, l engine.Launch, r engine.Running) {
		b.use(open(b.t.(*testing.T), b.dir))
		b.engine.Adopt(engine.Attempt{
			UniID: l.UniID, Job: l.Job, Dir: l.Dir, PID: r.PID, PIDStart: r.PIDStart, Started: r.Started, Grace: l.Grace,
		})
	}
	// begin starts a job that waits for a line of input, and closes the engine.
	begin := func(t *testing.T, command string) (*bench, engine.Launch, engine.Running, string) {
		b := newBench(t, open)
		l := b.launch("read x <$DIR/fifo; " + command)
		fifo := b.fifo(l)
		r := b.start(l)
		if err := b.engine.Close(); err != nil {
			t.Fatal(err)
		}
		return b, l, r, fifo
	}
	goOn := func(t *testing.T, fifo string) {
		if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("while it runs", func(t *testing.T) {
		b, l, r, fifo := begin(t, "exit 3")
		adopt(b, l, r)
		ev := b.next(l.UniID)
		if ev.Running == nil || !ev.Running.Adopted || ev.Running.PID != r.PID || !ev.Running.Started.Equal(r.Started) {
			t.Fatalf("got %+v, want Running of %+v, adopted", ev, r)
		}
		goOn(t, fifo)
		got := b.end(l.UniID)
		b.expect(got, outcome{Exit: 3})
		if !got.Started.Equal(r.Started) || got.Elapsed <= 0 {
			t.Errorf("started %v, elapsed %v", got.Started, got.Elapsed)
		}
	})
	t.Run("after it has ended", func(t *testing.T) {
		b, l, r, fifo := begin(t, "exit 3")
		goOn(t, fifo)
		awaitGone(t, r.PID)
		adopt(b, l, r)
		b.expect(b.end(l.UniID), outcome{Exit: 3})
	})
	t.Run("and stopped", func(t *testing.T) {
		b, l, r, _ := begin(t, "exit 3")
		adopt(b, l, r)
		b.engine.Stop(l.UniID, state.WhyInterrupted, engine.Term)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGTERM", Why: state.WhyInterrupted})
		gone(t, r.PID)
	})
	t.Run("void if it never began", func(t *testing.T) {
		b := newBench(t, open)
		l := b.launch("echo ran")
		b.engine.Close()
		adopt(b, l, engine.Running{})
		b.expect(b.end(l.UniID), outcome{Exit: -1, Lost: true, Void: true})
	})
	t.Run("later commands run without a runner", func(t *testing.T) {
		b := newBench(t, open)
		l := b.launch("read x <$DIR/fifo", "echo second", "echo third")
		fifo := b.fifo(l)
		r := b.start(l)
		b.engine.Close()
		adopt(b, l, r)
		goOn(t, fifo)
		b.expect(b.end(l.UniID), outcome{})
		if got := b.log(l); got != "second\nthird\n" {
			t.Errorf("log = %q", got)
		}
	})
}

// testMany: many attempts at once, each with its own end.
func testMany(t *testing.T, open Opener) {
	b := newBench(t, open)
	const n = 200
	var ls []engine.Launch
	for i := range n {
		l := b.launch(fmt.Sprintf("echo %d; exit %d", i, i%100))
		ls = append(ls, l)
		b.engine.Launch(l)
	}
	for i, l := range ls {
		b.expect(b.end(l.UniID), outcome{Exit: i % 100})
		if got, want := b.log(l), fmt.Sprintf("%d\n", i); got != want {
			t.Errorf("log = %q, want %q", got, want)
		}
	}
}
