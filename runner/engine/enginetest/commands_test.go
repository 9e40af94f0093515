package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// commands returns tests of commands that run to their end.
func commands() (tests []test) {
	signaled := func(name string) outcome { return outcome{Exit: -1, Signal: name} }
	for _, c := range []struct {
		name     string
		with     func(l *engine.Launch) // changes the launch; may be nil
		commands []string
		want     outcome
		log      string // may contain $VARIABLES of the launch
		err      string // part of the reason why no command runs; "" if one does
	}{
		{"success", nil, []string{"echo ok"}, outcome{}, "ok\n", ""},
		{"exit 3", nil, []string{"exit 3"}, outcome{Exit: 3}, "", ""},
		{"exit 126", nil, []string{"exit 126"}, outcome{Exit: 126}, "", ""},
		{"command not found", nil, []string{"exec /nowhere/x 2>/dev/null"}, outcome{Exit: 127}, "", ""},
		{"SIGKILL", nil, []string{"kill -9 $$"}, signaled("SIGKILL"), "", ""},
		{"SIGTERM to itself", nil, []string{"kill $$"}, signaled("SIGTERM"), "", ""},
		{"SIGSEGV", nil, []string{"kill -SEGV $$"}, signaled("SIGSEGV"), "", ""},
		{"a real-time signal", nil, []string{"kill -35 $$"}, signaled("signal 35"), "", ""},
		{"SIGKILL to its group", nil, []string{"kill -9 0"}, signaled("SIGKILL"), "", ""},
		{"a list in order", nil, []string{"echo 1", "echo 2", "echo 3"}, outcome{}, "1\n2\n3\n", ""},
		{"a list up to the first failure", nil, []string{"echo 1", "exit 4", "echo 3"}, outcome{Exit: 4}, "1\n", ""},
		{"a list up to the first signal", nil, []string{"echo 1", "kill -9 $$", "echo 3"}, signaled("SIGKILL"), "1\n", ""},
		{"each command in its own shell", nil, []string{"X=1; cd /", "echo \"[$X]\""}, outcome{}, "[]\n", ""},
		{"environment is exactly the given one", func(l *engine.Launch) {
			l.Env = append(l.Env, "A=b c", "Z=", "THEIRS=(SLURM|SBATCH|SGE).*|.*VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|TMPDIR|TMP|HOSTNAME|ENVIRONMENT|JOB_(ID|NAME|SCRIPT)|N(HOSTS|SLOTS|QUEUES)|QUEUE|REQ(NAME|UEST)|ARC|RESTARTED|TERM|LANG|TZ|ZE_AFFINITY_MASK|[A-Z_]+_PATH")
		},
			[]string{`env | grep -vE "^(PWD|OLDPWD|SHLVL|_|THEIRS|$THEIRS)=" | sort`}, outcome{}, "A=b c\nDIR=$DIR\nGPURUN_UNI_ID=$GPURUN_UNI_ID\nPATH=$PATH\nZ=\n", ""},
		{"working directory", func(l *engine.Launch) { l.WorkDir = "/usr" }, []string{"pwd -P"}, outcome{}, "/usr\n", ""},
		{"empty stdin", nil, []string{"cat; echo end"}, outcome{}, "end\n", ""},
		{"shell of several words", func(l *engine.Launch) { l.Shell = []string{"sh", "-e", "-c"} }, []string{"false; echo not reached"}, outcome{Exit: 1}, "", ""},
		{"one log keeps the order", nil, []string{"for i in 1 2 3; do echo o$i; echo e$i >&2; done"}, outcome{}, "o1\ne1\no2\ne2\no3\ne3\n", ""},
		{"a device as a log", func(l *engine.Launch) { l.Stdout, l.Stderr = os.DevNull, os.DevNull }, []string{"echo ran"}, outcome{}, "", ""},

		{"no working directory", func(l *engine.Launch) { l.WorkDir = "/nowhere/at/all" }, []string{"echo ran"}, outcome{Exit: -1}, "", "/nowhere/at/all"},
		{"no shell", func(l *engine.Launch) { l.Shell = []string{"/nowhere/sh", "-c"} }, []string{"echo ran"}, outcome{Exit: 127}, "", "/nowhere/sh"},
		{"a shell that is not executable", func(l *engine.Launch) { l.Shell = []string{"/etc/passwd", "-c"} }, []string{"echo ran"}, outcome{Exit: 126}, "", "/etc/passwd"},
		{"a log that is a folder", func(l *engine.Launch) { l.Stdout = l.WorkDir }, []string{"echo ran"}, outcome{Exit: -1}, "", "$DIR"},
	} {
		tests = append(tests, test{c.name, func(b *bench) {
			l := b.launch(c.commands...)
			if c.with != nil {
				c.with(&l)
			}
			expand := func(s string) string {
				return os.Expand(s, func(name string) string { return engine.Variable(l.Env, name) })
			}
			before := time.Now()
			if c.err != "" {
				got := b.run(l)
				if b.expect(got, c.want); !strings.Contains(got.Err, expand(c.err)) {
					b.t.Errorf("Err is %q, without %s", got.Err, expand(c.err))
				}
				return
			}
			run := b.start(l)
			got := b.end(l.UniID)
			b.expect(got, c.want)
			b.logged(l, expand(c.log))
			if got.Err != "" || run.PID == 0 || run.PIDStart == 0 || run.Adopted {
				b.t.Errorf("Err is %q, running as %+v", got.Err, run)
			}
			if got.Started.Before(before.Add(-time.Second)) || got.At.Before(got.Started) || got.Elapsed <= 0 {
				b.t.Errorf("started %v, ended %v, elapsed %v", got.Started, got.At, got.Elapsed)
			}
		}})
	}
	return tests
}

// logs tests where the output of an attempt goes.
var logs = []test{
	{"two files", func(b *bench) {
		l := b.launch("echo out; echo err >&2")
		l.Stderr = filepath.Join(b.t.TempDir(), "new", "folder", "err")
		b.expect(b.run(l), outcome{})
		b.logged(l, "out\n")
		b.contains(l.Stderr, "err\n")
	}},
	{"header, then appended", func(b *bench) {
		l := b.launch("echo new")
		l.Stdout = filepath.Join(l.WorkDir, "log")
		l.Stderr, l.Header = l.Stdout, "--- attempt 2 ---\n"
		b.write(l.Stdout, "old\n")
		b.expect(b.run(l), outcome{})
		b.logged(l, "old\n"+l.Header+"new\n")
	}},
	{"header in both files", func(b *bench) {
		l := b.launch("echo out; echo err >&2")
		l.Stderr, l.Header = filepath.Join(l.WorkDir, "err"), "--- attempt 2 ---\n"
		b.expect(b.run(l), outcome{})
		b.logged(l, l.Header+"out\n")
		b.contains(l.Stderr, l.Header+"err\n")
	}},
	{"a FIFO without a reader is an error", func(b *bench) {
		l := b.launch("echo ran")
		l.Stdout = b.fifo(l)
		l.Stderr = l.Stdout
		if got := b.run(l); got.Err == "" {
			b.t.Errorf("ended as %+v, want an error", got)
		}
	}},
	{"a lot of output", func(b *bench) {
		l := b.launch("head -c 67108864 /dev/zero")
		b.expect(b.run(l), outcome{})
		if fi, err := os.Stat(l.Stdout); err != nil || fi.Size() != 64<<20 {
			b.t.Errorf("log: %v, %v", fi, err)
		}
	}},
}

// once tests that no attempt runs twice, or after it was voided.
var once = []test{
	{"an attempt does not run twice", func(b *bench) {
		l := b.launch("echo ran")
		b.expect(b.run(l), outcome{})
		if got := b.run(l); got.Err == "" {
			b.t.Errorf("ended as %+v, want an error", got)
		}
		b.logged(l, "ran\n")
	}},
	{"a void attempt does not run", func(b *bench) {
		l := b.launch("echo ran")
		b.engine.Adopt(engine.Attempt{Identity: engine.Identity{UniID: l.UniID, Job: l.Job, Dir: l.Dir}})
		b.expect(b.end(l.UniID), outcome{Exit: -1, Lost: true, Void: true})
		b.expect(b.run(l), outcome{Exit: -1, Lost: true, Void: true})
		if text, err := os.ReadFile(l.Stdout); err == nil && len(text) > 0 {
			b.t.Errorf("it ran after it was voided: %q", text)
		}
	}},
}
