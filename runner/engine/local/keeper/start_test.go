package keeper

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/wire"
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
		argv: []string{"sh", "-c", text}, env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "B=two words"}, dir: dir,
		begun: filepath.Join(dir, "begun"), files: [3]int{int(null.Fd()), int(out.Fd()), int(out.Fd())},
	}, out.Name()
}

// run runs a program to its end and returns its status and output.
func run(t testing.TB, p *program, out string) (unix.WaitStatus, string) {
	t.Helper()
	id, err := p.start(os.Stdin)
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
	if begun, err := wire.Begun(p.begun); err == nil && begun.PID != 0 && begun != id {
		t.Errorf("the marker is of %v, the process is %v", begun, id)
	}
	text, _ := os.ReadFile(out)
	return st, string(text)
}

func TestStart(t *testing.T) {
	p, out := command(t, `echo "$0 $A $B"; pwd; cat; echo done >&2; exit 3`)
	st, text := run(t, p, out)
	if want := "sh 1 two words\n" + p.dir + "\ndone\n"; st.ExitStatus() != 3 || text != want {
		t.Errorf("status %v, output %q, want 3 and %q", st, text, want)
	}
	if begun, err := wire.Begun(p.begun); err != nil || begun.Start == 0 {
		t.Errorf("the marker: %v, %v", begun, err)
	}
}

func TestStartIsSession(t *testing.T) {
	p, out := command(t, `read -r line </proc/self/stat; echo $line`)
	_, text := run(t, p, out)
	f := strings.Fields(text)
	if len(f) < 6 || f[4] != f[0] || f[5] != f[0] {
		t.Errorf("stat = %q, want process group and session to be the pid", text)
	}
}

func TestStartSignals(t *testing.T) {
	// nohup, or a shell's &, starts the tests with these ignored; one that is caught is not.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(caught)
	p, out := command(t, `while read -r k v; do case $k in SigBlk:|SigIgn:) echo $k $v;; esac; done </proc/self/status`)
	_, text := run(t, p, out)
	f := strings.Fields(text)
	if len(f) != 4 {
		t.Fatalf("got %q", text)
	}
	// libc keeps signals 32 and 33 for itself; what starts the tests may have them ignored.
	const libc = 1<<31 | 1<<32
	for _, set := range []string{f[1], f[3]} {
		if n, err := strconv.ParseUint(set, 16, 64); err != nil || n&^libc != 0 {
			t.Errorf("got %q, want no signal blocked or ignored", text)
		}
	}
}

// The functions that bash exports, and whatever else only looks odd, reach the command.
func TestStartEnvironment(t *testing.T) {
	p, out := command(t, "env -0 | sort -z | tr '\\0' '\\n' | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^PATH -e ^OLDPWD")
	p.argv[0] = "bash"
	p.env = append(p.env, "BASH_FUNC_f%%=() {  echo hi\n}", "a.b=1", "1st=2", "C=caf\xe9")
	if _, text := run(t, p, out); text != "1st=2\nA=1\nB=two words\nBASH_FUNC_f%%=() {  echo hi\n}\nC=caf\xe9\na.b=1\n" {
		t.Errorf("got %q", text)
	}
}

// What does not begin leaves nothing in the log and does not run.
func TestStartFails(t *testing.T) {
	for name, spoil := range map[string]func(*program){
		"void":                     func(p *program) { wire.Void(p.begun) },
		"no folder for the marker": func(p *program) { p.begun = "/nowhere/begun" },
	} {
		t.Run(name, func(t *testing.T) {
			p, out := command(t, "echo ran")
			spoil(p)
			if st, text := run(t, p, out); st.ExitStatus() <= 0 || text != "" {
				t.Errorf("status %v, log %q", st, text)
			}
		})
	}
	p, _ := command(t, "echo ran")
	p.dir = "/nowhere"
	if _, err := p.start(os.Stdin); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no working directory: %v", err)
	}
	p, _ = command(t, "echo ran")
	p.files[1] = 9999
	if _, err := p.start(os.Stdin); !errors.Is(err, unix.EBADF) {
		t.Errorf("bad descriptor: %v", err)
	}
}

// When a child races somebody who voids its marker, only one of them wins.
func TestVoidRace(t *testing.T) {
	for range 100 {
		p, out := command(t, "echo ran")
		var wg sync.WaitGroup
		var won bool
		wg.Go(func() { won, _ = wire.Void(p.begun) })
		st, text := run(t, p, out)
		wg.Wait()
		if ran := text != ""; ran == won || (st == 0) == won {
			t.Fatalf("ran %v, void %v, status %v", ran, won, st)
		}
	}
}

// A child that finds its parent gone does not begin, and leaves no marker.
func TestParentGone(t *testing.T) {
	p, out := command(t, "echo ran")
	for _, args := range [][]string{{p.begun, "1"}, {p.begun, strconv.Itoa(os.Getpid())}} {
		attr := syscall.ProcAttr{Env: p.env, Dir: p.dir, Files: []uintptr{0, uintptr(p.files[1]), 2}}
		argv := append([]string{"sh", "-c", prelude, "gpurun"}, append(args, p.argv...)...)
		pid, err := syscall.ForkExec("/bin/sh", argv, &attr)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.WaitStatus
		if _, err := unix.Wait4(pid, &st, 0, nil); err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(p.begun)
		text, _ := os.ReadFile(out)
		if gone := args[1] == "1"; gone != (missing != nil) || gone != (len(text) == 0) || gone != (st != 0) {
			t.Errorf("parent gone: %v; marker: %v, log %q, status %v", gone, missing, text, st)
		}
	}
}
