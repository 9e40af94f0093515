package cli

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"gpurun/runner/batches"

	"golang.org/x/term"
)

// A process ends an invocation that cannot continue, and reports to its user.
type process struct {
	err     io.Writer
	outTTY  bool // whether standard output is a terminal
	errTTY  bool
	say     func(kind, text string) // prints an error, a warning, a hint or a note
	done    chan int                // exit status, at the end or if the invocation cannot continue
	onPanic func()                  // restores the terminal before a panic is reported
	runLog  io.Writer               // receives goroutine dumps; nil means err
}

func newProcess(say func(kind, text string)) *process {
	return &process{
		err: os.Stderr, say: say, done: make(chan int, 1),
		outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// guard runs f, and returns early if the invocation cannot continue. Whatever f is
// still doing then ends with the process.
func (p *process) guard(f func() int) int {
	p.goSafely(func() { p.done <- f() })
	return <-p.done
}

// goSafely starts a goroutine whose panic is an internal error, exit status 70: Go's 2
// would mean that nothing ran.
func (p *process) goSafely(f func()) {
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
func (p *process) crashed(what any, stack []byte) {
	if p.onPanic != nil {
		p.onPanic()
	}
	if p.runLog != nil {
		fmt.Fprintf(p.runLog, "panic: %v\n%s\n", what, stack)
	}
	fmt.Fprintf(p.err, "gpurun: internal error: %v\n%s", what, stack)
	p.hint("this is a bug in gpurun; running jobs continue, and the next gpurun of the same file adopts them")
	select {
	case p.done <- batches.ExitInternal:
	default:
	}
}

func (p *process) hint(text string) {
	if text != "" {
		p.say("hint", text)
	}
}

func (p *process) warn(texts ...string) {
	for _, text := range texts {
		p.say("warning", text)
	}
}
