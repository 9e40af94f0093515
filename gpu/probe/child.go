package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// childArg is the first argument that makes this program run as its own child.
const childArg = "__probe"

// A child is a process that holds NVML. It shares only three pipes with the
// parent, runs in its own session so that Ctrl-C does not reach it, and exits
// when its stdin closes, even if the driver never returns.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	start   func(func())  // starts a goroutine
	said    chan message  // one hello, then answers
	done    chan struct{} // closed when the process is gone
	ended   error         // from Wait; valid once done is closed
	stderr  tail
	lastID  uint64
	pending time.Time     // when the oldest unanswered question was asked
	stuckAt time.Duration // when it was abandoned
}

// A message is one line from the child, or why there are no more.
type message struct {
	hello  *hello
	answer *answer
	err    error
}

var (
	errHung    = errors.New("no answer")
	errCrashed = errors.New("crashed")
)

// startChild starts a child. Its hello is the first message.
func startChild(library string, lists bool, start func(func())) (*child, error) {
	if start == nil {
		start = func(f func()) { go f() }
	}
	c := &child{cmd: exec.Command("/proc/self/exe", childArgs(library, lists)...), said: make(chan message, 1), done: make(chan struct{})}
	c.cmd.Args[0] = "gpurun"
	c.cmd.Dir = "/"
	c.cmd.Env = childEnv(os.Environ())
	c.cmd.Stderr = &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Files that a grandchild of the library leaves open must not block Wait.
	c.cmd.WaitDelay = time.Second
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	// Not StdoutPipe: Wait closes that before everything is read.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = w
	err = c.cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	c.start = start
	start(func() { c.listen(r) })
	start(func() {
		c.ended = c.cmd.Wait()
		close(c.done)
	})
	return c, nil
}

// childArgs makes the library's path absolute, because the child runs in /.
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

// childEnv drops LD_BIND_NOW, which would bind all of NVML's functions at start:
// this driver may lack some.
func childEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "LD_BIND_NOW=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// listen passes on the child's messages until there are no more or it is gone.
func (c *child) listen(r *os.File) {
	defer func() { _ = r.Close() }()
	br := bufio.NewReaderSize(r, 64<<10)
	m := message{hello: &hello{}}
	m.err = readLine(br, m.hello)
	for {
		select {
		case c.said <- m:
		case <-c.done:
			// Maybe nobody is asking any more. Keep the message if there is room.
			select {
			case c.said <- m:
			default:
			}
			return
		}
		if m.err != nil {
			return
		}
		m = message{answer: &answer{}}
		m.err = readLine(br, m.answer)
	}
}

// wait waits up to limit for the next message.
func (c *child) wait(ctx context.Context, limit time.Duration) (message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m := <-c.said:
		if m.err != nil {
			return m, c.crash(m.err)
		}
		return m, nil
	case <-timer.C:
		return message{}, errHung
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

// crash describes how the child ended, with its most telling line on stderr.
func (c *child) crash(err error) error {
	if !errors.Is(err, io.EOF) {
		c.kill()
		return fmt.Errorf("%w: it sent an unreadable line: %v", errCrashed, err)
	}
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
		c.kill()
		return fmt.Errorf("%w: it closed its output without exiting", errCrashed)
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

// ask sends q and waits for its answer, skipping answers to abandoned questions.
// The limit counts from the oldest unanswered question.
func (c *child) ask(ctx context.Context, q question, limit time.Duration) (*answer, error) {
	c.lastID++
	q.ID = c.lastID
	sent := make(chan error, 1)
	c.start(func() { sent <- writeLine(c.stdin, q) })
	if c.pending.IsZero() {
		c.pending = time.Now()
	}
	for {
		m, err := c.wait(ctx, time.Until(c.pending.Add(limit)))
		if err != nil {
			return nil, err
		}
		c.pending = time.Now()
		if m.answer != nil && m.answer.ID == q.ID {
			c.pending = time.Time{}
			return m.answer, <-sent
		}
	}
}

// kill sends SIGKILL. A child that hangs in the kernel stays alive until the
// kernel lets it go.
func (c *child) kill() {
	_ = c.stdin.Close()
	_ = c.cmd.Process.Kill()
}

func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// close lets the child exit on its own, then kills it.
func (c *child) close(limit time.Duration) {
	_ = c.stdin.Close()
	for range 2 {
		select {
		case <-c.done:
			return
		case <-time.After(limit):
			c.kill()
		}
	}
}

// A tail keeps the beginning and the end of what is written to it.
type tail struct {
	mu         sync.Mutex
	head, kept []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := min(tailSize-len(t.head), len(p))
	t.head = append(t.head, p[:room]...)
	t.kept = append(t.kept, p...)
	if n := len(t.kept); n > tailSize {
		t.kept = append(t.kept[:0], t.kept[n-tailSize:]...)
	}
	return len(p), nil
}

// last returns the most telling line: the first of a Go crash, else the last one.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(string(t.head)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "SIG") {
			return strings.TrimSpace(line)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
