package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/batches"
)

// onPTY is a program on its own terminal.
type onPTY struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File

	mu    sync.Mutex
	out   bytes.Buffer
	first time.Duration // time until the first output
	grown chan struct{}
	over  chan struct{} // closed once no process has the terminal open
}

func startOnPTY(t *testing.T, dir string, args ...string) *onPTY {
	t.Helper()
	return startCommandOnPTY(t, dir, gpurunBinary(t), args...)
}

// startCommandOnPTY starts any program, with gpurun in its PATH.
func startCommandOnPTY(t *testing.T, dir, program string, args ...string) *onPTY {
	t.Helper()
	if signal.Ignored(os.Interrupt) { // as in background commands of shell scripts
		signal.Notify(make(chan os.Signal, 1), os.Interrupt) // so that the program does not inherit it
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &onPTY{t: t, master: master, grown: make(chan struct{}, 1), over: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = dir, slave, slave, slave
	p.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "GPURUN_CLAIMS_DIR="+dir, "HOME="+dir,
		"PATH="+filepath.Dir(gpurunBinary(t))+":"+os.Getenv("PATH"))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	t.Cleanup(func() { p.cmd.Process.Kill(); master.Close() })
	go p.read(began)
	return p
}

// gpurunBinary returns a link named gpurun to the test binary, which acts as gpurun under that
// name.
func gpurunBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "gpurun")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func (p *onPTY) read(began time.Time) {
	defer close(p.over)
	buf := make([]byte, 64<<10)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		if n > 0 && p.out.Len() == 0 {
			p.first = time.Since(began)
		}
		p.out.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.grown <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (p *onPTY) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// sees waits until the text appears.
func (p *onPTY) sees(text string) {
	p.t.Helper()
	deadline := time.After(time.Minute)
	for !strings.Contains(p.text(), text) {
		select {
		case <-p.grown:
		case <-deadline:
			p.t.Fatalf("%q is missing after a minute in:\n%s", text, p.text())
		}
	}
}

func (p *onPTY) types(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits until the program has exited and its output is read, and returns its exit status.
func (p *onPTY) exit() int {
	p.cmd.Wait()
	select {
	case <-p.over:
	case <-time.After(time.Minute): // another process still has the terminal open
	}
	return p.cmd.ProcessState.ExitCode()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestSecondCtrlCStopsJobs(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "jobs.yaml"), `
settings: {max_concurrent: 2, grace: 1s}
jobs:
  - name: "train-{s}"
    matrix: {s: [1, 2, 3]}
    gpus: 0
    run: echo epoch {s}; exec sleep 60
`)
	p := startOnPTY(t, dir, "jobs.yaml")
	p.sees("epoch 2")
	p.sees("0 of 3 done, 2 running, 1 waiting")
	if p.first > 3*time.Second {
		t.Errorf("the first output came after %v, want at most 3s", p.first)
	}
	p.types("\x03")
	p.sees("starting no more jobs; press Ctrl-C again to stop running jobs")
	p.types("\x03")
	p.sees("3 did not run")
	if got := p.exit(); got != batches.ExitInt {
		t.Errorf("exit status %d, want %d", got, batches.ExitInt)
	}
	// Only the summary may follow the last erase.
	out := p.text()
	last := out[strings.LastIndex(out, "\x1b[J")+3:]
	if strings.Contains(last, "epoch") || strings.Contains(last, "[....") || !strings.Contains(last, "3 did not run") {
		t.Errorf("got %q after the last erase, want only the summary", last)
	}
}

// Each GPU has a row with the memory and progress of its job. Jobs that failed with the same error
// share a row with their common parameters.
func TestLiveViewShowsGPUsAndFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "jobs.yaml"), `
jobs:
  - {name: hold, run: "echo epoch 16/20; until test -e go; do sleep 0.02; done", gpu_memory: 20GiB}
  - {name: "{model}-s{seed}", matrix: {model: [mlp, vit], seed: [1, 2]}, run: "test {model}{seed} != mlp2 || { echo no such file; exit 3; }; test {model} = mlp || { echo 'ValueError: loss is nan'; exit 1; }", gpu_memory: 20GiB}
`)
	p := startOnPTY(t, dir, "--sim", "2x24GiB", "jobs.yaml")
	p.sees("20/24")
	p.sees(" 2 ValueError: loss is nan (model=vit)")
	p.sees(" 1 no such file (mlp-s2)")
	p.sees("16/20 ")
	p.sees("?/24  ? ")
	writeFile(t, filepath.Join(dir, "go"), "")
	if got := p.exit(); got != batches.ExitFailed {
		t.Errorf("exit status %d, want %d", got, batches.ExitFailed)
	}
}

func TestLogHidesControlSequencesFromTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "painted"), "\x1b[2Jcleared \x1b[31mred\x1b[0m \u009b2J \u202ertl\n")
	writeFile(t, filepath.Join(dir, "jobs.yaml"), "jobs: [{name: paint, gpus: 0, run: cat painted}]\n")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"jobs.yaml"}, "1 of 1 done"},
		{[]string{"log", "paint"}, "^[[2Jcleared \x1b[31mred\x1b[0m <U+009B>2J <U+202E>rtl\r\n"},
		{[]string{"log", "-f", "paint"}, "^[[2Jcleared \x1b[31mred\x1b[0m <U+009B>2J <U+202E>rtl\r\n"},
		{[]string{"log", "--no-color", "paint"}, "^[[2Jcleared red <U+009B>2J <U+202E>rtl\r\n"},
		{[]string{"log", "--raw", "paint"}, "\x1b[2Jcleared \x1b[31mred\x1b[0m \u009b2J \u202ertl\r\n"},
	} {
		p := startOnPTY(t, dir, row.args...)
		p.sees(row.want)
		if got := p.exit(); got != 0 {
			t.Errorf("%q: got exit status %d, want 0", row.args, got)
		}
	}
}
