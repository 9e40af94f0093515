package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurun/runner/batches"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A detached run (run -d) is the same command in its own session. Once the run has a state folder,
// all its output goes to run.out there. If the run ends before its first status, its parent prints
// that output.

// detachedFD is the environment variable with the number of the file descriptor through which a
// detached run reports to its parent.
const detachedFD = "GPURUN_DETACHED_FD"

// Lines that a detached run writes to that descriptor.
const (
	saidOutput = "output " // followed by the path of run.out
	saidBegun  = "begun"
)

// Detach starts this command in its own session, with standard input if requested. It returns when
// the run has reported its first status or has ended.
func (p *Process) Detach(input bool, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return &batches.Failure{Code: batches.ExitInternal, Text: err.Error(), Err: err}
	}
	fd, err := unix.MemfdCreate("gpurun-out", unix.MFD_CLOEXEC) // works even if /tmp is full
	if err != nil {
		return &batches.Failure{Code: batches.ExitState, Text: "cannot save the output of the run: " + err.Error(), Err: err}
	}
	first := os.NewFile(uintptr(fd), "output")
	defer first.Close()
	said, tells, err := os.Pipe()
	if err != nil {
		return &batches.Failure{Code: batches.ExitInternal, Text: err.Error(), Err: err}
	}
	defer said.Close()
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = first, first
	if input {
		cmd.Stdin = os.Stdin
	}
	cmd.ExtraFiles = []*os.File{tells}
	cmd.Env = append(os.Environ(), detachedFD+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ctx, stop := p.UntilSignal()
	defer stop()
	err = cmd.Start()
	tells.Close()
	if err != nil {
		return &batches.Failure{Code: batches.ExitInternal, Text: "cannot start the run: " + err.Error(), Err: err}
	}
	p.Go(func() {
		<-ctx.Done()
		_ = cmd.Process.Signal(syscall.SIGTERM) // has no effect once the process is released
	})
	path, begun := "", false
	for lines := bufio.NewScanner(said); !begun && lines.Scan(); {
		line := lines.Text()
		if begun = line == saidBegun; !begun {
			path = strings.TrimPrefix(line, saidOutput)
		}
	}
	if begun {
		fmt.Fprintf(out, "running as process %d, output in %s; gpurun status shows its progress, gpurun stop ends it\n", cmd.Process.Pid, batches.Shown(path))
		return errors.Join(cmd.Process.Release(), stop())
	}
	_ = cmd.Wait()
	from := io.ReadSeeker(first)
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		from = f
	}
	to, code := out, cmd.ProcessState.ExitCode()
	if code != batches.ExitDone {
		to = p.Err
	}
	_, _ = from.Seek(0, io.SeekStart)
	_, _ = io.Copy(to, from)
	if code < 0 {
		return &batches.Failure{Code: batches.ExitInternal, Text: "the run was killed: " + cmd.ProcessState.String()}
	}
	return batches.Exit(code)
}

// A Detachment is the detached run's connection to its parent. It is nil for other runs.
type Detachment struct {
	report *os.File
	begun  func()
}

// Detached returns this process's Detachment, or nil.
func Detached() *Detachment {
	fd, err := strconv.Atoi(os.Getenv(detachedFD))
	if err != nil {
		return nil
	}
	os.Unsetenv(detachedFD) // jobs must not inherit it
	syscall.CloseOnExec(fd)
	d := &Detachment{report: os.NewFile(uintptr(fd), "starter")}
	d.begun = sync.OnceFunc(func() {
		fmt.Fprintln(d.report, saidBegun)
		d.report.Close()
	})
	return d
}

// redirect redirects this process's output to a file, and copies its earlier output there.
func (d *Detachment) redirect(path string) error {
	if d == nil {
		return nil
	}
	f, err := host.OpenOwn(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return &batches.Failure{Code: batches.ExitState, Text: "cannot save the output of the run: " + err.Error(), Err: err}
	}
	defer f.Close()
	if _, err := os.Stdout.Seek(0, io.SeekStart); err == nil {
		_, _ = io.Copy(f, os.Stdout)
	}
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			return &batches.Failure{Code: batches.ExitState, Text: "cannot save the output of the run: " + err.Error(), Err: err}
		}
	}
	_, _ = fmt.Fprintln(d.report, saidOutput+path) // the parent may have exited
	return nil
}

func (d *Detachment) Fact(int, state.Fact) {}

// Snapshot reports that the run has begun.
func (d *Detachment) Snapshot(*schema.Status) { d.begun() }
