package enginetest

import (
	"path/filepath"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// leftovers returns tests of processes that outlive the commands: whether they continue or are ended
// depends on Launch.Leftovers.
func leftovers() (tests []test) {
	onGPU := func(b *bench, script, what string) engine.Launch {
		l := b.launch(script)
		l.Leftovers, l.Grant = what, gpu.Grant{UUIDs: []gpu.UUID{"GPU-1"}}
		return l
	}
	const auto = engine.LeftoversAuto
	for _, c := range []struct {
		name, script, leftovers string
		seen                    bool // whether the process is seen on its GPU
		want                    outcome
		log                     string
	}{
		{"the attempt waits for leftovers", "nohup sh -c 'read x <$DIR/fifo; echo trained' 2>/dev/null &", auto, true, outcome{}, "trained\n"},
		{"a failing leftover fails the attempt", "(read x <$DIR/fifo; exit 3) &", auto, true, outcome{Exit: 3}, ""},
		{"a leftover fails the attempt before it is on a GPU", "(read x <$DIR/fifo; exit 3) &", auto, false, outcome{Exit: 3}, ""},
		{"an output filter may fail", "bash -c '(read x <$DIR/fifo) > >(cat; exit 1) & exit 0'", auto, false, outcome{}, ""},
		{"wait", "(read x <$DIR/fifo; exit 5) &", engine.LeftoversWait, false, outcome{Exit: 5}, ""},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			if c.seen {
				b.trees()
			}
			l := onGPU(b, c.script, c.leftovers)
			if c.leftovers == engine.LeftoversWait {
				l.Grant = gpu.Grant{} // it also applies without GPUs
			}
			b.fifo(l)
			b.start(l)
			left := b.background(l.UniID)
			if left.Text == "" {
				b.t.Error("the background process has no description")
			}
			if c.seen {
				b.trees().OnGPU(l.UniID, []int{left.PID})
			}
			b.goOn(l)
			b.expect(b.end(l.UniID), c.want)
			b.logged(l, c.log)
		}})
	}
	ends := func(name, script, leftovers string, want outcome) test {
		return test{name, func(b *bench) { b.expect(b.run(onGPU(b, script, leftovers)), want) }}
	}
	fails := func(name, leftovers string, grant bool) test {
		return test{name, func(b *bench) {
			l := onGPU(b, "sleep 1000 &", leftovers)
			if !grant {
				l.Grant = gpu.Grant{}
			}
			if e := b.run(l); e.LeftRunning == "" || e.LeftOver != 0 {
				b.t.Errorf("got LeftRunning %q, LeftOver %d", e.LeftRunning, e.LeftOver)
			}
		}}
	}
	return append(tests,
		ends("command not found fails the attempt", "exec 2>/dev/null; nosuchcommand & exit 0", auto, outcome{Exit: 127}),
		ends("a failed job's leftovers are ended", "sleep 1000 & exit 4", auto, outcome{Exit: 4, LeftOver: 1}),
		ends("kill", "sleep 1000 &", engine.LeftoversKill, outcome{}),
		fails("a CPU job's leftovers are ended", auto, false),
		fails("fail", engine.LeftoversFail, true),
		test{"a leftover on no GPU may fail next to one that was", func(b *bench) {
			b.trees()
			l := onGPU(b, "(until test -e $DIR/seen; do sleep 0.01; done; exit 3) & (read x <$DIR/fifo; exit 0) & echo $! >$DIR/main", auto)
			b.fifo(l)
			b.start(l)
			shown := b.background(l.UniID)
			main := b.readPID(filepath.Join(l.WorkDir, "main"))
			b.trees().OnGPU(l.UniID, []int{main})
			for shown.PID != main { // the keeper may report the other process first
				shown = b.background(l.UniID)
			}
			b.write(filepath.Join(l.WorkDir, "seen"), "")
			b.goOn(l)
			b.expect(b.end(l.UniID), outcome{})
		}},
		test{"stop ends a leftover", func(b *bench) {
			l := onGPU(b, "sleep 1000 &", auto)
			b.start(l)
			b.background(l.UniID)
			b.engine.Stop(l.UniID, "cancelled", engine.Term)
			b.expect(b.end(l.UniID), outcome{Why: "cancelled"})
		}},
	)
}
