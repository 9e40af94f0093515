package enginetest

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/state"
)

// saving tests attempts that are asked to save their work before they are stopped.
var saving = []test{
	{"a handler that exits", func(b *bench) {
		l, _, _ := b.saver(`bash -c 'trap "echo saved; exit 4" USR1; echo $$ >$DIR/fifo; while test -d $DIR; do sleep 0.02; done'; exit $?`, "echo second")
		b.trees().Save(l.UniID, state.WhyResize, "USR1", patience)
		b.announced(l.UniID, state.WhyResize)
		b.expect(b.end(l.UniID), outcome{Exit: 4, Why: state.WhyResize, Aside: true})
		b.logged(l, "saved\n")
	}},
	{"a handler that exits with 0", func(b *bench) {
		l, _, child := b.saver(`trap "exit 0" USR1; (trap : USR1; while :; do sleep 1000; done) & echo $! >$DIR/fifo; while test -d $DIR; do sleep 0.02; done`, "echo second")
		b.trees().Save(l.UniID, state.WhyResize, "USR1", time.Hour)
		b.expect(b.end(l.UniID), outcome{Why: state.WhyResize})
		b.logged(l, "") // no further command starts
		gone(b.t, child)
	}},
	{"a handler that continues", func(b *bench) {
		l, _, _ := b.saver(`trap "echo saved" USR1; echo $$ >$DIR/fifo; while test -d $DIR; do sleep 0.02; done`)
		b.trees().Save(l.UniID, state.WhyResize, "USR1", 300*time.Millisecond)
		b.trees().Save(l.UniID, state.WhyResize, "USR1", 300*time.Millisecond) // a repeated request has no effect
		got := b.end(l.UniID)
		b.expect(got, outcome{Exit: -1, Signal: "SIGTERM", Why: state.WhyResize})
		b.logged(l, "saved\n")
		if got.Elapsed < 300*time.Millisecond {
			b.t.Errorf("the attempt was stopped after %v, before its time to save was over", got.Elapsed)
		}
	}},
	{"no process catches the signal", func(b *bench) {
		l, _, _ := b.saver(`trap : USR2; echo $$ >$DIR/fifo; read x <$DIR/again`)
		b.trees().Save(l.UniID, state.WhyResize, "USR1", time.Hour)
		if ev := b.next(l.UniID); !strings.Contains(ev.Declined, "SIGUSR1") {
			b.t.Fatalf("got %+v, want Declined", ev)
		}
		b.write(l.WorkDir+"/again", "go\n")
		b.expect(b.end(l.UniID), outcome{})
	}},
	{"stopped while saving", func(b *bench) {
		l, _, _ := b.saver(`trap "echo saved" USR1; echo $$ >$DIR/fifo; while test -d $DIR; do sleep 0.02; done`)
		b.trees().Save(l.UniID, state.WhyResize, "USR1", time.Hour)
		b.announced(l.UniID, state.WhyResize)
		b.engine.Stop(l.UniID, state.WhyCancelled, engine.Kill)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGKILL", Why: state.WhyResize}) // the first reason is kept
	}},
	{"an attempt that is over", func(b *bench) {
		b.trees().Save("nobody", state.WhyResize, "USR1", time.Hour)
		b.expect(b.run(b.launch(":")), outcome{})
	}},
	{"after its runner has ended", func(b *bench) {
		b = newBench(b.t, b.kind)
		l, r, _ := b.saver(`trap "echo saved" USR1; echo $$ >$DIR/fifo; while test -d $DIR; do sleep 0.02; done`)
		b.trees().Save(l.UniID, state.WhyResize, "USR1", 500*time.Millisecond)
		b.announced(l.UniID, state.WhyResize)
		if err := b.engine.Close(); err != nil {
			b.t.Fatal(err)
		}
		b.adopt(l, r)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGTERM", Why: state.WhyResize})
		b.logged(l, "saved\n")
	}},
}

// saver launches an attempt and waits for the PID that the attempt writes to its FIFO. It skips the
// test if the engine cannot ask attempts to save.
func (b *bench) saver(commands ...string) (l engine.Launch, r engine.Running, pid int) {
	b.t.Helper()
	b.trees()
	l = b.launch(commands...)
	l.Shell = []string{"bash", "-c"}
	l.Grace = patience
	fifo := b.fifo(l)
	if err := unix.Mkfifo(l.WorkDir+"/again", 0o600); err != nil && !os.IsExist(err) {
		b.t.Fatal(err)
	}
	r = b.start(l)
	return l, r, hear(b.t, fifo)
}
