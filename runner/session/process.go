package session

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"gpurun/runner/batches"

	"golang.org/x/term"
)

// A Process is one invocation of gpurun: its output, its exit status and its panic handler.
type Process struct {
	Err     io.Writer
	OutTTY  bool // standard output is a terminal
	ErrTTY  bool
	Say     func(kind, text string) // prints an error, a warning, a hint or a note
	Done    chan int                // receives the exit status, at the end or when the invocation cannot continue
	OnPanic func()                  // restores the terminal before a panic is reported
	runLog  io.Writer               // receives goroutine dumps; nil means standard error
}

// NewProcess returns this process. It reports messages through say.
func NewProcess(say func(kind, text string)) *Process {
	return &Process{
		Err: os.Stderr, Say: say, Done: make(chan int, 1),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())), ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// Guard runs f, but returns early if the invocation cannot continue. In that case, f ends with the
// process.
func (p *Process) Guard(f func() int) int {
	p.Go(func() { p.Done <- f() })
	return <-p.Done
}

// Go starts a goroutine. If it panics, gpurun exits with status 70, because Go's own status 2 would
// mean that no job ran.
func (p *Process) Go(f func()) {
	go func() {
		defer func() {
			if what := recover(); what != nil {
				p.crashed(what, debug.Stack())
			}
		}()
		f()
	}()
}

// crashed reports a bug and ends the invocation.
func (p *Process) crashed(what any, stack []byte) {
	if p.OnPanic != nil {
		p.OnPanic()
	}
	if p.runLog != nil {
		fmt.Fprintf(p.runLog, "panic: %v\n%s\n", what, stack)
	}
	fmt.Fprintf(p.Err, "gpurun: internal error: %v\n%s", what, stack)
	p.Hint("this is a bug in gpurun; running jobs continue, and the next run of the same file reattaches to them")
	select {
	case p.Done <- batches.ExitInternal:
	default:
	}
}

// Hint prints how to fix an error, unless text is "".
func (p *Process) Hint(text string) {
	if text != "" {
		p.Say("hint", text)
	}
}

// Warn reports warnings.
func (p *Process) Warn(texts ...string) {
	for _, text := range texts {
		p.Say("warning", text)
	}
}
