package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// daemon is a shell command that starts a daemon, detached from its parent, session, output and
// folder. The daemon writes its PID to $DIR/fifo.
const daemon = `(setsid sh -c '(cd /; echo $$ >/dev/null; exec sh -c "echo \$\$ >$DIR/fifo; exec sleep 1000" >/dev/null 2>&1) &') `

// stubborn makes a shell ignore SIGTERM.
const stubborn = `trap "" TERM; `

// leaves returns a test that the engine ends the leftover process of a command. The process's PID must
// arrive on the FIFO.
func leaves(name, command string, want outcome) test {
	return test{name, func(b *bench) {
		l := b.launch(command)
		fifo := b.fifo(l)
		b.engine.Launch(l)
		left := hear(b.t, fifo)
		b.expect(b.end(l.UniID), want)
		gone(b.t, left)
	}}
}

// trees tests that an attempt includes its whole process tree.
var trees = []test{
	{"CPU time includes the whole tree", func(b *bench) {
		b.trees()
		b, busy, r := abandon(b, "while :; do :; done")
		b.adopt(busy, r)
		idle := b.launch("sleep 1000")
		b.start(idle)
		daemons := b.launch("setsid sh -c 'while test -d $DIR; do :; done' & sleep 1000")
		b.start(daemons)
		b.goOn(busy)
		deadline := time.Now().Add(patience)
		for {
			used := b.engine.Trees.CPU([]string{busy.UniID, idle.UniID, daemons.UniID, "unknown"})
			if used[busy.UniID] >= 100*time.Millisecond && used[daemons.UniID] >= 100*time.Millisecond {
				if cpu, ok := used[idle.UniID]; !ok || cpu > 90*time.Millisecond {
					b.t.Errorf("the idle attempt has used %s, %v", cpu, ok)
				}
				if cpu, ok := used["unknown"]; ok {
					b.t.Errorf("an unknown attempt has used %s", cpu)
				}
				return
			}
			if time.Now().After(deadline) {
				b.t.Fatalf("the busy attempts still count as idle: %v", used)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}},
	leaves("a leftover child is ended", "sleep 1000 & echo $! >$DIR/fifo", outcome{LeftOver: 1}),
	leaves("a leftover daemon is ended", daemon+"; exit 5", outcome{Exit: 5, LeftOver: 1}),
	leaves("a daemon without an environment is ended", "env -i DIR=$DIR PATH=\"$PATH\" "+daemon[1:len(daemon)-2], outcome{LeftOver: 1}),
	{"a leftover child that ignores SIGTERM gets the grace period", func(b *bench) {
		l := b.launch(stubborn + "sleep 1000 & echo $! >$DIR/fifo")
		l.Grace = 300 * time.Millisecond
		fifo := b.fifo(l)
		began := time.Now()
		b.engine.Launch(l)
		child := hear(b.t, fifo)
		b.expect(b.end(l.UniID), outcome{LeftOver: 1})
		if d := time.Since(began); d < l.Grace {
			b.t.Errorf("the attempt ended after %v, within its grace period of %v", d, l.Grace)
		}
		gone(b.t, child)
	}},
	{"a process that closes its output late is not a leftover", func(b *bench) {
		l := b.launch(`(trap "date +%s%N >ended; exit" TERM; >ready; sleep 0.05; echo late) & until test -e ready; do sleep 0.01; done`)
		got := b.run(l)
		if got.LeftOver == 0 {
			b.expect(got, outcome{})
			b.logged(l, "late\n")
			return
		}
		text, _ := os.ReadFile(filepath.Join(l.WorkDir, "ended")) // a busy machine was too slow for the process
		ended, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if after := time.Unix(0, ended).Sub(got.At); err != nil || after < procs.SettleTime {
			b.t.Errorf("the process was ended after %v, %v, want at least %v", after, err, procs.SettleTime)
		}
	}},
	{"Attempt finds the attempt of a process", func(b *bench) {
		b.trees()
		l := b.launch(daemon + "; sleep 1000")
		fifo := b.fifo(l)
		r := b.start(l)
		d := hear(b.t, fifo)
		for pid, want := range map[int]string{r.PID: l.UniID, d: l.UniID, os.Getpid(): ""} {
			if got := b.trees().Attempt(pid); got != want {
				b.t.Errorf("Attempt(%d) = %q, want %q", pid, got, want)
			}
		}
		b.engine.Stop(l.UniID, "cancelled", engine.Kill)
		b.expect(b.end(l.UniID), outcome{Exit: -1, Signal: "SIGKILL", Why: "cancelled"})
		gone(b.t, d)
	}},
	{"a tree job ends with its last process", func(b *bench) {
		l := b.launch("(read x <$DIR/fifo; echo later) & exit 0")
		l.Tree = true
		b.fifo(l)
		b.start(l)
		released := time.Now()
		b.goOn(l)
		end := b.end(l.UniID)
		b.expect(end, outcome{})
		if end.At.Before(released) {
			b.t.Errorf("the end is at %v, but the tree was running until at least %v", end.At, released)
		}
		b.logged(l, "later\n")
	}},
	{"stop ends a process that the script reports as running", func(b *bench) {
		l := b.reporting("$(cat $DIR/fifo)", "running")
		fifo := b.fifo(l)
		r := b.start(l)
		other := exec.Command("sleep", "1000")
		if err := other.Start(); err != nil {
			b.t.Fatal(err)
		}
		defer other.Process.Kill()
		b.write(fifo, fmt.Sprintln(other.Process.Pid))
		awaitGone(b.t, r.PID)
		b.engine.Stop(l.UniID, "cancelled", engine.Term)
		awaitGone(b.t, other.Process.Pid)
		_ = other.Wait()
		b.expect(b.end(l.UniID), outcome{Why: "cancelled"})
	}},
	{"a tree job reports its end", func(b *bench) {
		for _, report := range []string{"normal_exit", "abnormal_exit"} {
			b.expect(b.run(b.reporting("$$", report)), outcome{Report: report})
		}
	}},
}

// reporting returns a tree job that reports the state of a PID.
func (b *bench) reporting(pid, state string) engine.Launch {
	l := b.launch("")
	l.Tree, l.UniFile = true, filepath.Join(l.WorkDir, "uni_id.json")
	l.Commands[0] = fmt.Sprintf(`printf '{"%s": {"pid": %%d, "state": "%s"}}' %s >%s`, l.UniID, state, pid, l.UniFile)
	return l
}
