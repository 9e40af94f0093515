package enginetest

import (
	"os"
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// stops returns tests of requested stops and timeouts.
func stops() (tests []test) {
	const say = "echo $$ >$DIR/fifo; "
	ended := func(exit int, signal string) outcome {
		return outcome{Exit: exit, Signal: signal, Why: state.WhyCancelled}
	}
	for _, c := range []struct {
		name, command string
		grace         time.Duration
		how           []engine.StopMode
		want          outcome
	}{
		{"Term", say + "sleep 1000", patience, []engine.StopMode{engine.Term}, ended(-1, "SIGTERM")},
		// sleep starts before the signal: a process started just after it may belong to the handler.
		{"Term to a handler that exits 0", "trap 'exit 0' TERM; sleep 1000 & " + say + "wait", patience, []engine.StopMode{engine.Term}, ended(0, "")},
		{"Term to a command that ignores it", stubborn + say + "sleep 1000; sleep 1000", 200 * time.Millisecond, []engine.StopMode{engine.Term}, ended(-1, "SIGKILL")},
		{"Term to a stopped command", say + "kill -STOP $$; sleep 1000", patience, []engine.StopMode{engine.Term}, ended(-1, "SIGTERM")},
		{"Kill", stubborn + say + "sleep 1000", patience, []engine.StopMode{engine.Kill}, ended(-1, "SIGKILL")},
		{"Kill overrides Term", stubborn + say + "while :; do sleep 1000; done", time.Hour, []engine.StopMode{engine.Term, engine.Kill}, ended(-1, "SIGKILL")},
		{"Term to a daemon", daemon + "; exec sleep 1000", patience, []engine.StopMode{engine.Term}, ended(-1, "SIGTERM")},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.command, "echo second")
			l.Grace = c.grace
			fifo := b.fifo(l)
			r := b.start(l)
			child := hear(b.t, fifo)
			for _, how := range c.how {
				b.engine.Stop(l.UniID, c.want.Why, how)
			}
			b.expect(b.end(l.UniID), c.want)
			if text, err := os.ReadFile(l.Stdout); err != nil || strings.Contains(string(text), "second") {
				b.t.Errorf("the log is %q, %v", text, err)
			}
			gone(b.t, r.PID)
			gone(b.t, child)
		}})
	}
	const soon, traps = 150 * time.Millisecond, time.Second // enough for a shell to set a trap, even on a busy machine
	for _, c := range []struct {
		name, command  string
		timeout, grace time.Duration
		want           outcome
	}{
		{"timeout", "sleep 1000", soon, patience, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, ignores SIGTERM", stubborn + "sleep 1000; sleep 1000", traps, 300 * time.Millisecond, outcome{Exit: -1, Signal: "SIGKILL"}},
		{"timeout, closed its output", "exec >&- 2>&-; sleep 1000", soon, patience, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, exits 0 on SIGTERM", "trap 'exit 0' TERM; sleep 1000", traps, patience, outcome{}},
		{"timeout with a daemon", daemon + "; sleep 1000", soon, patience, outcome{Exit: -1, Signal: "SIGTERM"}},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.command)
			l.Timeout, l.Grace = c.timeout, c.grace
			b.fifo(l)
			b.start(l)
			b.announced(l.UniID, state.WhyTimeout)
			c.want.Why = state.WhyTimeout
			got := b.end(l.UniID)
			b.expect(got, c.want)
			if got.Elapsed < l.Timeout {
				b.t.Errorf("the attempt ended after %v, before its timeout of %v", got.Elapsed, l.Timeout)
			}
		}})
	}
	for _, c := range []struct {
		name, command string
		notice        engine.TimeoutSignal
		want          outcome
	}{
		{"timeout with a signal that is caught", "trap 'echo saved; exit 3' USR1; sleep 1000 & wait", engine.TimeoutSignal{Signal: "USR1", Grace: patience}, outcome{Exit: 3}},
		{"timeout with a signal that is caught and ignored", "trap : USR1 TERM; while :; do sleep 1000 & wait; done", engine.TimeoutSignal{Signal: "USR1", Grace: 300 * time.Millisecond}, outcome{Exit: -1, Signal: "SIGKILL"}},
		{"timeout with a signal that nothing catches", "exec sleep 1000", engine.TimeoutSignal{Signal: "USR1", Grace: patience}, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout with its own grace period", stubborn + "sleep 1000; sleep 1000", engine.TimeoutSignal{Signal: "TERM", Grace: 200 * time.Millisecond}, outcome{Exit: -1, Signal: "SIGKILL"}},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.command, "echo second")
			l.Timeout, l.Grace, l.TimeoutSignal = 1200*time.Millisecond, time.Hour, &c.notice
			if c.notice.Grace == patience {
				l.Grace = patience
			}
			b.fifo(l)
			r := b.start(l)
			b.announced(l.UniID, state.WhyTimeout)
			c.want.Why = state.WhyTimeout
			b.expect(b.end(l.UniID), c.want)
			text, err := os.ReadFile(l.Stdout)
			if saved := strings.Contains(string(text), "saved"); err != nil || saved != (c.want.Exit == 3) || strings.Contains(string(text), "second") {
				b.t.Errorf("the log is %q, %v", text, err)
			}
			gone(b.t, r.PID)
		}})
	}
	return append(tests,
		test{"a job that ends before its timeout", func(b *bench) {
			l := b.launch(":")
			l.Timeout = time.Hour
			b.expect(b.run(l), outcome{})
		}},
		test{"stopping an unknown attempt is not an error", func(b *bench) {
			b.engine.Stop("nobody", state.WhyCancelled, engine.Kill)
			b.expect(b.run(b.launch(":")), outcome{})
		}})
}
