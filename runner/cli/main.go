// Package cli is the command line: its grammar, one file for each command, the
// messages and the exit codes. It opens the parts of a run (job files, state,
// GPUs, engine, terminal), hands them to the runner and says how it went.
//
// Nothing below this package prints to a person's terminal or ends the process,
// but for the view of runner/terminal; and nothing in here decides what runs.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"gpurun/gpu/probe"
	"gpurun/runner/engine/local"
)

// Main is gpurun: it runs the command that args, without the program's name,
// ask for and returns the exit status.
func Main(args []string) int {
	if len(args) > 0 {
		// The program's own helpers: the keeper of a run, and the child that talks to NVML.
		switch args[0] {
		case "__keeper":
			return local.KeeperMain(args[1:])
		case "__probe":
			return probe.ChildMain(args[1:])
		}
	}
	debug.SetMemoryLimit(softMemory)
	a := newApp()
	return a.guard(func() int { return a.main(args) })
}

// softMemory is from where on the garbage of a large batch is collected more often
// than speed alone would have it: a million jobs leave room for other people's.
const softMemory = 1200 << 20

// app is one invocation: its streams, and what the flags of every command say.
type app struct {
	out, err io.Writer
	outTTY   bool // out is a terminal
	errTTY   bool
	global   globalFlags
	settings map[string]string // settings given as flags, as they were typed
	dead     chan int          // exit status of an invocation that cannot go on
	onPanic  func()            // puts the terminal in order before the report of a panic
	runLog   io.Writer         // where a dump of all goroutines goes; nil for err
}

func newApp() *app {
	return &app{
		out: os.Stdout, err: os.Stderr,
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		dead:   make(chan int, 1),
	}
}

// guard runs f, and returns early when the invocation cannot go on: what f still
// does then is lost with the process.
func (a *app) guard(f func() int) int {
	done := make(chan int, 1)
	a.goSafely(func() { done <- f() })
	select {
	case code := <-done:
		return code
	case code := <-a.dead:
		return code
	}
}

// goSafely starts a goroutine whose panic is gpurun's own failure, exit status
// 70: Go's 2 would say that nothing ran.
func (a *app) goSafely(f func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				a.crashed(p, debug.Stack())
			}
		}()
		f()
	}()
}

// crashed reports a bug and ends the invocation.
func (a *app) crashed(what any, stack []byte) {
	if a.onPanic != nil {
		a.onPanic()
	}
	if a.runLog != nil {
		fmt.Fprintf(a.runLog, "panic: %v\n%s\n", what, stack)
	}
	fmt.Fprintf(a.err, "gpurun: internal error: %v\n%s", what, stack)
	a.hint("this is a bug in gpurun; jobs that run go on, and the next gpurun of the same file finds them")
	select {
	case a.dead <- exitInternal:
	default:
	}
}

// main parses the command line and runs its command.
func (a *app) main(args []string) int {
	if len(args) == 1 && args[0] == "--version" {
		args = []string{"version"}
	}
	if err := mistyped(args); err != nil {
		return a.report(err)
	}
	root := &grammar{}
	parser, err := newParser(root, a)
	if err != nil {
		panic(err) // the grammar itself is wrong
	}
	ctx, err := parser.Parse(args)
	if errors.Is(err, errHelpShown) {
		return exitDone
	}
	if err != nil {
		return a.report(a.badArguments(err))
	}
	a.global = root.globalFlags
	a.settings = givenSettings(ctx)
	return a.report(ctx.Run(a))
}

// badArguments is what kong says of a command line, with the way to the help.
func (a *app) badArguments(err error) error {
	hint := "gpurun --help lists the commands and their flags"
	var pe *kong.ParseError
	if errors.As(err, &pe) && pe.Context != nil {
		if cmd := pe.Context.Selected(); cmd != nil && cmd.Type == kong.CommandNode {
			hint = "gpurun " + cmd.Name + " --help lists its flags"
		}
	}
	return &failure{code: exitUsage, text: err.Error(), hint: hint}
}
