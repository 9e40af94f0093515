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

// childArg is the word behind which this program is its own child.
const childArg = "__probe"

// A child is a process that holds NVML. It has no file of the parent's but three
// pipes, is in a session of its own, so that no Ctrl-C reaches it, and ends when
// its stdin does, whatever the driver does to the thread that called it.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	start   func(func())  // goroutines
	said    chan message  // one hello, then answers
	done    chan struct{} // closed when the process is gone
	ended   error         // how, once done is closed
	stderr  tail
	lastID  uint64
	pending time.Time     // when the oldest question without an answer was asked
	stuckAt time.Duration // when it was given up
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
	// What a grandchild of the library's might leave open must not keep Wait.
	c.cmd.WaitDelay = time.Second
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	// Not StdoutPipe, which Wait closes before everything is read.
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

// childArgs names the library as the child, which has / as its folder, finds it too.
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

// childEnv is the environment without what would bind NVML's functions, which
// the program may lack, at its start.
func childEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "LD_BIND_NOW=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// listen passes on what the child says, until it says no more or is gone.
func (c *child) listen(r *os.File) {
	defer func() { _ = r.Close() }()
	br := bufio.NewReaderSize(r, 64<<10)
	m := message{hello: &hello{}}
	m.err = readLine(br, m.hello)
	for {
		select {
		case c.said <- m:
		case <-c.done:
			// Nobody may be asking any more; what fits is kept for one who does.
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

// wait waits for the next message, until the deadline.
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

// crash says how the child ended, with the last line it wrote on stderr.
func (c *child) crash(err error) error {
	if !errors.Is(err, io.EOF) {
		c.kill()
		return fmt.Errorf("%w: it said something unintelligible: %v", errCrashed, err)
	}
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
		c.kill()
		return fmt.Errorf("%w: it said no more", errCrashed)
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

// ask sends q and waits for its answer, passing over those to earlier
// questions that nobody waited for. The limit counts from the oldest question
// that has no answer yet.
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

// kill ends the child by force. One that hangs in the kernel goes when the
// kernel lets it, which alive tells.
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

// close lets the child end by itself, then makes it.
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

// tail keeps the beginning and the end of what is written to it.
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

// last is the line that tells most: the first of a Go crash, else the last one.
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
