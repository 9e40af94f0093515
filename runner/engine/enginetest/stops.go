package enginetest

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// testStops: requested stops, and timeouts.
func testStops(t *testing.T, open Opener) {
	b := newBench(t, open)
	stop := func(name, command string, grace time.Duration, how engine.How, want outcome) {
		t.Run(name, func(t *testing.T) {
			b.t = t
			l := b.launch(command)
			l.Grace = grace
			fifo := b.fifo(l)
			r := b.start(l)
			child := pid(t, hear(t, fifo))
			b.engine.Stop(l.UniID, want.Why, how)
			b.expect(b.end(l.UniID), want)
			gone(t, r.PID)
			gone(t, child)
		})
	}
	const say = "echo $$ >$DIR/fifo; "
	by := func(exit int, signal string) outcome {
		return outcome{Exit: exit, Signal: signal, Why: state.WhyCancelled}
	}
	stop("Term", say+"sleep 1000", patience, engine.Term, by(-1, "SIGTERM"))
	stop("Term to a handler that exits 0", "trap 'exit 0' TERM; "+say+"sleep 1000", patience, engine.Term, by(0, ""))
	stop("Term to one that ignores it", stubborn+say+"sleep 1000; sleep 1000", 200*time.Millisecond, engine.Term, by(-1, "SIGKILL"))
	stop("Term to a stopped one", say+"kill -STOP $$; sleep 1000", patience, engine.Term, by(-1, "SIGTERM"))
	stop("Kill", stubborn+say+"sleep 1000", patience, engine.Kill, by(-1, "SIGKILL"))
	stop("Term to a daemon", daemon+"; exec sleep 1000", patience, engine.Term, by(-1, "SIGTERM"))

	t.Run("Kill overrides Term", func(t *testing.T) {
		b.t = t
		l := b.launch(stubborn + say + "while :; do sleep 1000; done")
		l.Grace = time.Hour
		fifo := b.fifo(l)
		b.start(l)
		hear(t, fifo)
		b.engine.Stop(l.UniID, state.WhyCancelled, engine.Term)
		b.engine.Stop(l.UniID, state.WhyCancelled, engine.Kill)
		b.expect(b.end(l.UniID), by(-1, "SIGKILL"))
	})
	t.Run("no more commands after a stop", func(t *testing.T) {
		b.t = t
		l := b.launch("trap 'exit 0' TERM; "+say+"sleep 1000", "echo second")
		fifo := b.fifo(l)
		b.start(l)
		hear(t, fifo)
		b.engine.Stop(l.UniID, state.WhyCancelled, engine.Term)
		b.expect(b.end(l.UniID), by(0, ""))
		if got := b.log(l); strings.Contains(got, "second") {
			t.Errorf("log = %q", got)
		}
	})
	t.Run("stopping an unknown attempt is not an error", func(t *testing.T) {
		b.t = t
		b.engine.Stop("nobody", state.WhyCancelled, engine.Kill)
		b.expect(b.run(b.launch(":")), outcome{})
	})
	testTimeouts(t, b)
}

func testTimeouts(t *testing.T, b *bench) {
	timeouts := []struct {
		name, command string
		want          outcome
	}{
		{"timeout", "sleep 1000", outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, ignores SIGTERM", stubborn + "sleep 1000; sleep 1000", outcome{Exit: -1, Signal: "SIGKILL"}},
		{"timeout, closed its output", "exec >&- 2>&-; sleep 1000", outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, exits 0 on SIGTERM", "trap 'exit 0' TERM; sleep 1000", outcome{}},
		{"timeout with a daemon", daemon + "; sleep 1000", outcome{Exit: -1, Signal: "SIGTERM"}},
	}
	for _, tt := range timeouts {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			l := b.launch(tt.command)
			l.Timeout, l.Grace = 150*time.Millisecond, 300*time.Millisecond
			b.fifo(l)
			b.start(l)
			ev := b.next(l.UniID)
			if ev.Stopping == nil || ev.Stopping.Why != state.WhyTimeout {
				t.Fatalf("got %+v, want Stopping", ev)
			}
			tt.want.Why = state.WhyTimeout
			got := b.end(l.UniID)
			b.expect(got, tt.want)
			if got.Elapsed < l.Timeout {
				t.Errorf("it ended after %v, timeout %v", got.Elapsed, l.Timeout)
			}
		})
	}
	t.Run("a job that ends before its timeout", func(t *testing.T) {
		b.t = t
		l := b.launch(":")
		l.Timeout = time.Hour
		b.expect(b.run(l), outcome{})
	})
}
