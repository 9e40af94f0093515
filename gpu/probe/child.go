package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// childArg is the first argument that makes this program run as its own child.
const childArg = "__probe"

// A child is a process that uses NVML. It shares only three pipes with the parent, runs in its own
// session so that Ctrl-C does not reach it, and exits when its stdin closes, even if a call to the
// driver never returns. It sends a hello, then answers questions.
type child struct {
	cmd     *exec.Cmd
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader
	line    []byte // the part of the next answer read so far
	stderr  tail
	done    chan struct{} // closed when the process is gone
	ended   error         // from Wait; valid once done is closed
	lastID  uint64
	pending time.Time     // when the oldest unanswered question was sent
	stuckAt time.Duration // when the child was abandoned
}

var (
	errHung    = errors.New("no answer")
	errCrashed = errors.New("crashed")
)

func startChild(library string, lists bool) (*child, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		return nil, err
	}
	defer out.Close()
	c := &child{
		cmd: exec.Command("/proc/self/exe", childArgs(library, lists)...), stdin: stdin, stdout: stdout,
		lines: bufio.NewReaderSize(stdout, 64<<10), done: make(chan struct{}), pending: time.Now(),
	}
	c.cmd.Args[0] = "gpurun"
	c.cmd.Dir = "/"
	// LD_BIND_NOW would resolve all of NVML's functions at start, but the driver may lack some of them.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LD_BIND_NOW=") })
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Files kept open by a process that the library started must not block Wait.
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		_, _ = stdin.Close(), stdout.Close()
		return nil, err
	}
	go func() {
		c.ended = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// childArgs returns the child's arguments. It makes the library's path absolute, because the child
// runs in /.
func childArgs(library string, lists bool) []string {
	args := []string{childArg}
	if !lists {
		args = append(args, "--lists=false")
	}
	if library == "" {
		return args
	}
	if strings.Contains(library, "/") {
		if abs, err := filepath.Abs(library); err == nil {
			library = abs
		}
	}
	return append(args, "--library", library)
}

// ask sends q and returns its answer, skipping answers to abandoned questions. limit is measured
// from the oldest unanswered question.
func (c *child) ask(ctx context.Context, q question, limit time.Duration) (*answer, error) {
	c.lastID++
	q.ID = c.lastID
	if c.pending.IsZero() {
		c.pending = time.Now()
	}
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	_ = c.stdin.SetWriteDeadline(c.pending.Add(limit))
	if _, err := c.stdin.Write(append(line, '\n')); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errHung
	} // ignore other errors: reading the answer returns a better one
	for {
		a, err := c.next(ctx, limit)
		if err != nil || a.ID == q.ID {
			return a, err
		}
		c.pending = time.Now()
	}
}

// next returns the next answer. limit is measured from the oldest unanswered question.
func (c *child) next(ctx context.Context, limit time.Duration) (*answer, error) {
	by := c.pending.Add(limit)
	defer context.AfterFunc(ctx, func() { _ = c.stdout.SetReadDeadline(time.Now()) })()
	_ = c.stdout.SetReadDeadline(by)
	for ctx.Err() == nil {
		part, err := c.lines.ReadSlice('\n')
		c.line = append(c.line, part...)
		switch {
		case len(c.line) > maxLine:
			return nil, c.crash(errLongLine)
		case err == nil:
			var a answer
			if err := json.Unmarshal(c.line, &a); err != nil {
				return nil, c.crash(err)
			}
			c.line, c.pending = nil, time.Time{}
			return &a, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !time.Now().Before(by) {
				return nil, errHung
			}
			_ = c.stdout.SetReadDeadline(by) // replaces a deadline set when an earlier ctx ended
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, c.crash(err)
		}
	}
	return nil, ctx.Err()
}

// crash describes how the child ended, with the most informative line of its stderr.
func (c *child) crash(err error) error {
	if !errors.Is(err, io.EOF) {
		c.kill()
		return fmt.Errorf("%w: it sent an unreadable line: %v", errCrashed, err)
	}
	if !c.gone(context.Background(), 5*time.Second) {
		c.kill()
		return fmt.Errorf("%w: it closed its output but did not exit", errCrashed)
	}
	how := "exit status 0"
	if c.ended != nil {
		how = c.ended.Error()
	}
	if last := c.stderr.last(); last != "" {
		how += ": " + last
	}
	return fmt.Errorf("%w: %s", errCrashed, how)
}

// kill sends SIGKILL. A child that hangs in the kernel stays alive until its system call returns.
func (c *child) kill() {
	_ = c.stdin.Close()
	_ = c.cmd.Process.Kill()
	_ = c.stdout.Close()
}

// gone reports whether the process ends within limit.
func (c *child) gone(ctx context.Context, limit time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
	case <-time.After(limit):
	}
	return false
}

// close waits up to limit for the child to exit on its own, and otherwise kills it.
func (c *child) close(limit time.Duration) {
	_ = c.stdin.Close()
	if !c.gone(context.Background(), limit) {
		c.kill()
		c.gone(context.Background(), limit)
	}
	_ = c.stdout.Close()
}
