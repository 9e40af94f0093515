package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// stops returns tests of requested stops.
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
	return append(tests, test{"stopping an unknown attempt is not an error", func(b *bench) {
		b.engine.Stop("nobody", state.WhyCancelled, engine.Kill)
		b.expect(b.run(b.launch(":")), outcome{})
	}})
}

// timeouts returns tests of timeouts.
func timeouts() (tests []test) {
	const ready = ">ready; "
	// late lets an attempt exceed its timeout only once it is ready. If the machine is too slow for that,
	// it launches the attempt again with a longer timeout.
	late := func(b *bench, l engine.Launch) (engine.Launch, engine.Running, state.End) {
		for l.Timeout = 150 * time.Millisecond; ; l.Timeout *= 2 {
			again := b.launch(l.Commands...)
			again.Timeout, again.Grace, again.TimeoutSignal = l.Timeout, l.Grace, l.TimeoutSignal
			r := b.start(again)
			b.announced(again.UniID, state.WhyTimeout)
			end := b.end(again.UniID)
			if _, err := os.Stat(filepath.Join(again.WorkDir, "ready")); err == nil || l.Timeout > patience {
				return again, r, end
			}
		}
	}
	for _, c := range []struct {
		name, command string
		grace         time.Duration
		want          outcome
	}{
		{"timeout", ready + "sleep 1000", patience, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, ignores SIGTERM", stubborn + ready + "sleep 1000; sleep 1000", 300 * time.Millisecond, outcome{Exit: -1, Signal: "SIGKILL"}},
		{"timeout, closed its output", "exec >&- 2>&-; " + ready + "sleep 1000", patience, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout, exits 0 on SIGTERM", "trap 'exit 0' TERM; " + ready + "sleep 1000", patience, outcome{}},
		{"timeout with a daemon", daemon + "; until test -s fifo; do sleep 0.01; done; " + ready + "sleep 1000", patience, outcome{Exit: -1, Signal: "SIGTERM"}},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.command)
			l.Grace = c.grace
			l, _, got := late(b, l)
			c.want.Why = state.WhyTimeout
			b.expect(got, c.want)
			if got.Elapsed < l.Timeout {
				b.t.Errorf("the attempt ended after %v, before its timeout of %v", got.Elapsed, l.Timeout)
			}
			if strings.HasPrefix(c.command, daemon) {
				gone(b.t, b.readPID(filepath.Join(l.WorkDir, "fifo")))
			}
		}})
	}
	for _, c := range []struct {
		name, command string
		notice        engine.TimeoutSignal
		want          outcome
	}{
		{"timeout with a signal that is caught", "trap 'echo saved; exit 3' USR1; sleep 1000 & " + ready + "wait", engine.TimeoutSignal{Signal: "USR1", Grace: patience}, outcome{Exit: 3}},
		{"timeout with a signal that is caught and ignored", "trap : USR1 TERM; " + ready + "while :; do sleep 1000 & wait; done", engine.TimeoutSignal{Signal: "USR1", Grace: 300 * time.Millisecond}, outcome{Exit: -1, Signal: "SIGKILL"}},
		{"timeout with a signal that nothing catches", ready + "exec sleep 1000", engine.TimeoutSignal{Signal: "USR1", Grace: patience}, outcome{Exit: -1, Signal: "SIGTERM"}},
		{"timeout with its own grace period", stubborn + ready + "sleep 1000; sleep 1000", engine.TimeoutSignal{Signal: "TERM", Grace: 200 * time.Millisecond}, outcome{Exit: -1, Signal: "SIGKILL"}},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.command, "echo second")
			l.Grace, l.TimeoutSignal = time.Hour, &c.notice
			if c.notice.Grace == patience {
				l.Grace = patience
			}
			l, r, got := late(b, l)
			c.want.Why = state.WhyTimeout
			b.expect(got, c.want)
			text, err := os.ReadFile(l.Stdout)
			if saved := strings.Contains(string(text), "saved"); err != nil || saved != (c.want.Exit == 3) || strings.Contains(string(text), "second") {
				b.t.Errorf("the log is %q, %v", text, err)
			}
			gone(b.t, r.PID)
		}})
	}
	return append(tests, test{"a job that ends before its timeout", func(b *bench) {
		l := b.launch(":")
		l.Timeout = time.Hour
		b.expect(b.run(l), outcome{})
	}})
}
