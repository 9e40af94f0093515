package keeper

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// command returns a program that runs a shell command, and the file of its output.
func command(t testing.TB, text string) (*program, string) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); null.Close() })
	return &program{
		path: "/bin/sh", argv: []string{"sh", "-c", text}, env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "B=two words"}, dir: dir,
		files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	}, out.Name()
}

// run runs a program to its end and returns its status and output.
func run(t testing.TB, p *program, out string) (unix.WaitStatus, string) {
	t.Helper()
	id, err := p.start()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.WaitStatus
	for {
		if _, err = unix.Wait4(id.PID, &st, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(out)
	return st, string(text)
}

func TestStartRunsTheCommand(t *testing.T) {
	p, out := command(t, `echo "$0 $A $B"; pwd; cat; echo done >&2; exit 3`)
	st, text := run(t, p, out)
	if want := "sh 1 two words\n" + p.dir + "\ndone\n"; st.ExitStatus() != 3 || text != want {
		t.Errorf("status %v, output %q, want 3 and %q", st, text, want)
	}
}

func TestStartedCommandLeadsASession(t *testing.T) {
	p, out := command(t, `read -r line </proc/self/stat; echo $line`)
	_, text := run(t, p, out)
	f := strings.Fields(text)
	if len(f) < 6 || f[4] != f[0] || f[5] != f[0] {
		t.Errorf("stat = %q, want process group and session to be the pid", text)
	}
}

func TestStartedCommandHasDefaultSignals(t *testing.T) {
	// nohup, or a shell's &, starts the tests with these signals ignored. Catching them undoes
	// that.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(caught)
	p, out := command(t, `while read -r k v; do case $k in SigBlk:|SigIgn:) echo $k $v;; esac; done </proc/self/status`)
	_, text := run(t, p, out)
	f := strings.Fields(text)
	if len(f) != 4 {
		t.Fatalf("got %q, want two signal masks", text)
	}
	// libc reserves signals 32 and 33; the process that started the tests may ignore them.
	const libc = 1<<31 | 1<<32
	for _, set := range []string{f[1], f[3]} {
		if n, err := strconv.ParseUint(set, 16, 64); err != nil || n&^libc != 0 {
			t.Errorf("got %q, want no signal blocked or ignored", text)
		}
	}
}

// Functions exported by bash, and other variables with unusual names, must reach the command.
func TestOddVariablesReachTheCommand(t *testing.T) {
	p, out := command(t, "env -0 | sort -z | tr '\\0' '\\n' | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^PATH -e ^OLDPWD")
	p.path, p.argv[0] = "/bin/bash", "bash"
	p.env = append(p.env, "BASH_FUNC_f%%=() {  echo hi\n}", "a.b=1", "1st=2", "C=caf\xe9")
	if _, text := run(t, p, out); text != "1st=2\nA=1\nB=two words\nBASH_FUNC_f%%=() {  echo hi\n}\nC=caf\xe9\na.b=1\n" {
		t.Errorf("got %q", text)
	}
}

// A command that cannot be started must leave nothing in the log.
func TestFailedStartLeavesLogEmpty(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*program)
		want  error
	}{
		"no working directory": {func(p *program) { p.dir = "/nowhere" }, unix.ENOENT},
		"no program":           {func(p *program) { p.path = "/nowhere" }, unix.ENOENT},
		"bad descriptor":       {func(p *program) { p.files[1] = 9999 }, unix.EBADF},
	} {
		t.Run(name, func(t *testing.T) {
			p, out := command(t, "echo ran")
			tt.spoil(p)
			if _, err := p.start(); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if text, _ := os.ReadFile(out); len(text) > 0 {
				t.Errorf("the log contains %q", text)
			}
		})
	}
}

// A command that could not be executed has not begun, and can be started again.
func TestUnexecutableCommandCanBeRestarted(t *testing.T) {
	p, out := command(t, "echo ran")
	p.path = "/nowhere"
	if _, err := p.start(); !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	p.path = "/bin/sh"
	if st, text := run(t, p, out); st != 0 || text != "ran\n" {
		t.Errorf("status %v, log %q", st, text)
	}
}

// A bound program and its children run on its cores from the start. The keeper and its other
// programs keep theirs.
func TestBoundProgramKeepsItsCores(t *testing.T) {
	const show = `sh -c 'while read -r k v; do case $k in Cpus_allowed_list:) echo $v;; esac; done </proc/self/status'`
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !all.IsSet(first) {
		first++
	}
	_, before := output(t, show)
	p, out := command(t, show)
	var err error
	if p.cores, err = bound(strconv.Itoa(first) + ",1023"); err != nil {
		t.Fatal(err)
	}
	if _, text := run(t, p, out); text != strconv.Itoa(first)+"\n" {
		t.Errorf("the program is bound to %q, want %d", text, first)
	}
	if _, after := output(t, show); after != before {
		t.Errorf("the next program is bound to %q, want %q", after, before)
	}
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, dir := range threads {
		id, _ := strconv.Atoi(filepath.Base(dir))
		var set unix.CPUSet
		if unix.SchedGetaffinity(id, &set) == nil && set != all {
			t.Errorf("thread %d of the keeper has %d cores, want %d", id, set.Count(), all.Count())
		}
	}
	if set, err := bound(""); set != nil || err != nil {
		t.Errorf("no cores: got %v, %v", set, err)
	}
	if set, err := bound("1022-1023"); set != nil || err == nil || !strings.Contains(err.Error(), "1022-1023") {
		t.Errorf("missing cores: got %v, %v, want an error that names them", set, err)
	}
}

func output(t *testing.T, text string) (unix.WaitStatus, string) {
	p, out := command(t, text)
	return run(t, p, out)
}
