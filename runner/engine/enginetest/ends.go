package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
)

// testEnds: all the ways commands end on their own.
func testEnds(t *testing.T, open Opener) {
	tests := []struct {
		name     string
		commands []string
		want     outcome
		log      string
	}{
		{"success", []string{"echo ok"}, outcome{}, "ok\n"},
		{"exit 3", []string{"exit 3"}, outcome{Exit: 3}, ""},
		{"exit 126", []string{"exit 126"}, outcome{Exit: 126}, ""},
		{"command not found", []string{"exec /nowhere/x 2>/dev/null"}, outcome{Exit: 127}, ""},
		{"SIGKILL", []string{"kill -9 $$"}, outcome{Exit: -1, Signal: "SIGKILL"}, ""},
		{"SIGTERM to itself", []string{"kill $$"}, outcome{Exit: -1, Signal: "SIGTERM"}, ""},
		{"SIGSEGV", []string{"kill -SEGV $$"}, outcome{Exit: -1, Signal: "SIGSEGV"}, ""},
		{"its whole group", []string{"kill -9 0"}, outcome{Exit: -1, Signal: "SIGKILL"}, ""},
		{"a list in order", []string{"echo 1", "echo 2", "echo 3"}, outcome{}, "1\n2\n3\n"},
		{"a list up to the first failure", []string{"echo 1", "exit 4", "echo 3"}, outcome{Exit: 4}, "1\n"},
		{"a list up to the first signal", []string{"echo 1", "kill -9 $$", "echo 3"}, outcome{Exit: -1, Signal: "SIGKILL"}, "1\n"},
		{"each command in its own shell", []string{"X=1; cd /", "echo \"[$X]\""}, outcome{}, "[]\n"},
	}
	b := newBench(t, open)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.t = t
			l := b.launch(tt.commands...)
			before := time.Now()
			run := b.start(l)
			got := b.end(l.UniID)
			b.expect(got, tt.want)
			if got.Err != "" {
				t.Errorf("Err = %q", got.Err)
			}
			if log := b.log(l); log != tt.log {
				t.Errorf("log = %q, want %q", log, tt.log)
			}
			if run.PID == 0 || run.PIDStart == 0 || run.Adopted {
				t.Errorf("running as %+v", run)
			}
			if got.Started.Before(before.Add(-time.Second)) || got.At.Before(got.Started) || got.Elapsed <= 0 {
				t.Errorf("started %v, ended %v, elapsed %v", got.Started, got.At, got.Elapsed)
			}
		})
	}
}

// testStart: what an attempt finds when it starts, and what can prevent its start.
func testStart(t *testing.T, open Opener) {
	b := newBench(t, open)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
	}
	run("environment is exactly the given one", func(t *testing.T) {
		l := b.launch("env | grep -vE '^(PWD|OLDPWD|SHLVL|_)=' | sort")
		l.Env = append(l.Env, "A=b c", "Z=")
		b.expect(b.run(l), outcome{})
		want := "A=b c\nDIR=" + l.Dir + "\nGPURUN_UNI_ID=" + l.UniID + "\n" + l.Env[0] + "\nZ=\n"
		if got := b.log(l); got != want {
			t.Errorf("environment\n%s\nwant\n%s", got, want)
		}
	})
	run("working directory", func(t *testing.T) {
		l := b.launch("pwd -P")
		l.WorkDir = t.TempDir()
		b.expect(b.run(l), outcome{})
		real, _ := filepath.EvalSymlinks(l.WorkDir)
		if got := b.log(l); got != real+"\n" {
			t.Errorf("pwd = %q, want %q", got, real)
		}
	})
	run("empty stdin", func(t *testing.T) {
		l := b.launch("cat; echo end")
		b.expect(b.run(l), outcome{})
		if got := b.log(l); got != "end\n" {
			t.Errorf("log = %q", got)
		}
	})
	run("shell of several words", func(t *testing.T) {
		l := b.launch("false; echo not reached")
		l.Shell = []string{"sh", "-e", "-c"}
		b.expect(b.run(l), outcome{Exit: 1})
		if got := b.log(l); got != "" {
			t.Errorf("log = %q", got)
		}
	})
	run("no working directory", func(t *testing.T) {
		l := b.launch("echo ran")
		l.WorkDir = "/nowhere/at/all"
		if got := b.run(l); got.Err == "" || !strings.Contains(got.Err, l.WorkDir) {
			t.Errorf("Err = %q, does not name the folder", got.Err)
		}
	})
	run("no shell", func(t *testing.T) {
		l := b.launch("echo ran")
		l.Shell = []string{"/nowhere/sh", "-c"}
		if got := b.run(l); got.Err == "" || got.ExitCode != 127 {
			t.Errorf("exit %d, Err %q, want 127 and a reason", got.ExitCode, got.Err)
		}
	})
	run("a shell that is not executable", func(t *testing.T) {
		l := b.launch("echo ran")
		l.Shell = []string{filepath.Join(l.Dir, "sh"), "-c"}
		if err := os.WriteFile(l.Shell[0], nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := b.run(l); got.Err == "" || got.ExitCode != 126 {
			t.Errorf("exit %d, Err %q, want 126 and a reason", got.ExitCode, got.Err)
		}
	})
	run("nothing runs twice", func(t *testing.T) {
		l := b.launch("echo ran")
		b.expect(b.run(l), outcome{})
		if got := b.run(l); got.Err == "" {
			t.Errorf("ended as %+v, want an error", got)
		}
		if got := b.log(l); got != "ran\n" {
			t.Errorf("log = %q", got)
		}
	})
	run("void", func(t *testing.T) {
		l := b.launch("echo ran")
		b.engine.Adopt(engine.Attempt{UniID: l.UniID, Job: l.Job, Dir: l.Dir})
		b.expect(b.end(l.UniID), outcome{Exit: -1, Lost: true, Void: true})
		b.expect(b.run(l), outcome{Exit: -1, Lost: true, Void: true})
		if _, err := os.Stat(l.Stdout); err == nil && b.log(l) != "" {
			t.Errorf("it ran after it was voided: %q", b.log(l))
		}
	})
}
