package enginetest

import (
	"fmt"

	"gpurun/runner/engine"
	"gpurun/state"
)

// adopt opens another engine, which adopts an attempt.
func (b *bench) adopt(l engine.Launch, r engine.Running) {
	b.open()
	b.engine.Adopt(engine.Attempt{
		Identity: l.Identity, PID: r.PID, PIDStart: r.PIDStart, Started: r.Started,
	})
}

// abandon starts a job on a bench of its own and closes the engine. The job waits for goOn and then
// runs the commands.
func abandon(b *bench, commands ...string) (*bench, engine.Launch, engine.Running) {
	b = newBench(b.t, b.kind)
	l := b.launch(append([]string{"read x <$DIR/fifo; " + commands[0]}, commands[1:]...)...)
	b.fifo(l)
	r := b.start(l)
	if err := b.engine.Close(); err != nil {
		b.t.Fatal(err)
	}
	return b, l, r
}

// adoption tests attempts that outlive their run.
var adoption = []test{
	{"while it runs", func(b *bench) {
		b, l, r := abandon(b, "exit 3")
		b.adopt(l, r)
		ev := b.next(l.UniID)
		if ev.Running == nil || !ev.Running.Adopted || ev.Running.PID != r.PID || !ev.Running.Started.Equal(r.Started) {
			b.t.Fatalf("got %+v, want Running of %+v, adopted", ev, r)
		}
		b.goOn(l)
		got := b.end(l.UniID)
		b.expect(got, outcome{Exit: 3})
		if !got.Started.Equal(r.Started) || got.Elapsed <= 0 {
			b.t.Errorf("started %v, elapsed %v", got.Started, got.Elapsed)
		}
	}},
	{"after it has ended", func(b *bench) {
		b, l, r := abandon(b, "exit 3")
		b.goOn(l)
		awaitGone(b.t, r.PID)
		b.adopt(l, r)
		b.expect(b.end(l.UniID), outcome{Exit: 3})
	}},
	{"stopped after the adoption", func(b *bench) {
		b, l, r := abandon(b, "exit 3")
		b.adopt(l, r)
		b.engine.Stop(l.UniID, state.WhyInterrupted, engine.Term)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGTERM", Why: state.WhyInterrupted})
		gone(b.t, r.PID)
	}},
	{"an attempt that never began is void", func(b *bench) {
		b = newBench(b.t, b.kind)
		l := b.launch("echo ran")
		b.engine.Close()
		b.adopt(l, engine.Running{})
		b.expect(b.end(l.UniID), outcome{Exit: -1, Lost: true, Void: true})
	}},
	{"later commands run without a runner", func(b *bench) {
		b, l, r := abandon(b, ":", "echo second", "echo third")
		b.adopt(l, r)
		b.goOn(l)
		b.expect(b.end(l.UniID), outcome{})
		b.logged(l, "second\nthird\n")
	}},
}

// many tests that each of many concurrent attempts has its own end.
var many = []test{{"200 attempts", func(b *bench) {
	var ls []engine.Launch
	for i := range 200 {
		l := b.launch(fmt.Sprintf("echo %d; exit %d", i, i%100))
		ls = append(ls, l)
		b.engine.Launch(l)
	}
	for i, l := range ls {
		b.expect(b.end(l.UniID), outcome{Exit: i % 100})
		b.logged(l, fmt.Sprintln(i))
	}
}}}
