// Package cli is the command line: the grammar, a file per command, and the messages. To run jobs,
// it passes the flags to package session, shows the run, and reports the outcome.
//
// No package below this one prints to a terminal or ends the process, except the view in
// runner/terminal. This package does not decide which jobs run.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/alecthomas/kong"

	"gpurun/gpu/probe"
	"gpurun/jobspec/source"
	"gpurun/runner/batches"
	"gpurun/runner/capture"
	"gpurun/runner/engine/local/keeper"
	"gpurun/runner/notify"
	"gpurun/runner/session"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// Main runs the command in args, which exclude the program's name, and returns the exit status.
func Main(args []string) int {
	if capture.IsRecorder(os.Args[0]) {
		return capture.Recorder(os.Args)
	}
	if err := enoughFiles(); err != nil {
		return newApp().report(err)
	}
	if len(args) > 0 {
		// Helper processes: a cluster task, a run's keeper, the NVML child, the child of a capture,
		// and the sender of notifications.
		switch args[0] {
		case "__task":
			return batches.Clusters.Task(args[1:])
		case "__keeper":
			return keeper.Main(args[1:], keeper.Usual)
		case "__probe":
			return probe.ChildMain(args[1:])
		case capture.ChildArg:
			return capture.Host(args[1:])
		case notify.ChildArg:
			host.CloseInherited() // leftover processes of the user's command would keep the descriptors open
			return notify.ChildMain(os.Stdin, os.Stdout)
		}
	}
	debug.SetMemoryLimit(softMemory)
	debug.SetGCPercent(400) // the heap is small, or bounded by softMemory
	a := newApp()
	return a.Guard(func() int { return a.main(args) })
}

// softMemory is the memory use above which the garbage collector saves memory rather than time. A
// batch of a million jobs must leave room for other users.
const softMemory = 1200 << 20

// app is one invocation: its streams and global flags.
type app struct {
	*session.Process
	out    io.Writer
	global globalFlags
	*batches.Reader
	settings map[string]string // settings given as flags, as typed
	lines    map[string]string // flags given for a list of commands
	command  string            // "gpurun check" and the like if the command takes job files; "" for run
	input    []byte            // standard input, once read as a list of commands
	json     bool              // print errors as JSON
	stream   io.Writer         // where to write events if standard output is reserved for them, or nil
	allFiles bool              // jobs may belong to any file of the batch, because File stands for all of them
}

func newApp() *app {
	a := &app{out: stdout{}}
	a.Process = session.NewProcess(a.say)
	a.Reader = &batches.Reader{Start: a.Go, Note: func(text string) { a.say("note", text) }}
	return a
}

// main parses the command line and runs its command.
func (a *app) main(args []string) int {
	if len(args) > 0 && args[0] == confinedTo {
		var err error
		if args, err = a.confine(args[1:]); err != nil {
			return a.report(err)
		}
	}
	if len(args) == 1 && args[0] == "--version" {
		args = []string{"version"}
	}
	if len(args) == 0 {
		a.tour()
		return batches.ExitUsage
	}
	about := ""
	if args[0] == "help" {
		if len(args) > 1 {
			about = topic(source.OwnKey(strings.Join(args[1:], " ")), min(a.width(), 100))
		}
		if about != "" && (len(args) > 2 || !slices.Contains(shownCommands(), args[1])) {
			fmt.Fprint(a.out, about)
			return batches.ExitDone
		}
		args = append(slices.Clone(args[1:]), "--help")
	}
	if err := notACommand(args[0]); err != nil && disk.Lines(args[0], os.Getenv("GPURUN_STATE_DIR")) == nil {
		return a.report(cmp.Or(a.JobNamed(args[0]), err))
	}
	root := &grammar{}
	parser, err := newParser(root, a, args)
	if err != nil {
		panic(err) // a bug in the grammar
	}
	ctx, err := parser.Parse(args)
	if errors.Is(err, errHelpShown) {
		if about != "" {
			fmt.Fprint(a.out, "\nIn a job file:\n\n", about)
		}
		return batches.ExitDone
	}
	a.global, a.StateDir = root.globalFlags, root.StateDir
	if err != nil {
		err = badArguments(err)
	} else {
		err = misplacedFile(ctx)
	}
	if err != nil {
		a.json = a.json || slices.Contains(args, "--json")
		return a.report(err)
	}
	a.settings, a.lines, a.json = given(ctx, "settings"), given(ctx, "lines"), a.json || wantsJSON(ctx)
	maps.DeleteFunc(a.lines, func(_, value string) bool { return value == "" }) // values of unset shell variables
	if cmd := ctx.Selected(); cmd.Name != "run" && slices.ContainsFunc(cmd.Flags, func(f *kong.Flag) bool { return f.Name == "lines" }) {
		a.command = "gpurun " + cmd.Name
	}
	return a.report(ctx.Run(a))
}

// misplacedFile returns a failure if a flag's file name is empty, for example because a shell
// variable is not set. The command would then act on another batch. It also refuses a job file in
// place of a job, because the user of "gpurun stop jobs.yaml" means the whole batch.
func misplacedFile(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		switch {
		case p.Flag != nil && p.Flag.PlaceHolder == "FILE":
			given := ctx.Value(p)
			if names, list := given.Interface().([]string); list && slices.Contains(names, "") || given.IsZero() {
				return &batches.Failure{Code: batches.ExitUsage, Text: "--" + p.Flag.Name + " needs a file, but its value is empty", Hint: "without the flag, the command chooses the file"}
			}
		case p.Flag != nil && p.Flag.Name == "job", p.Positional != nil && p.Positional.Name == "job":
			for _, j := range ctx.Value(p).Interface().([]string) {
				if ext := filepath.Ext(j); (ext == ".yaml" || ext == ".yml") && host.Exists(j) {
					return &batches.Failure{Code: batches.ExitUsage, Text: quoted(j) + " is a file, not a job", Hint: "pass the job file with --file " + shellescape.Quote(j) + " and jobs by name ('*' for all); if the shell expanded a glob, quote it"}
				}
			}
		}
	}
	return nil
}

// badArguments returns kong's error with a hint about the help.
func badArguments(err error) error {
	hint := "gpurun --help lists the commands, gpurun COMMAND --help their flags"
	var pe *kong.ParseError
	if errors.As(err, &pe) && pe.Context != nil {
		if cmd := pe.Context.Selected(); cmd != nil && cmd.Type == kong.CommandNode {
			hint = "gpurun " + cmd.Name + " --help lists its flags"
		}
	}
	if fault, ok := errors.AsType[*source.Fault](err); ok && fault.Hint != "" {
		hint = fault.Hint
	}
	text := err.Error()
	if missing, ok := strings.CutPrefix(text, "expected \""); ok {
		text = "missing argument \"" + missing
	}
	if flag, _, ok := strings.Cut(text, ": expected "); ok && strings.HasSuffix(text, `but got "EOL" (<EOL>)`) {
		text = flag + " needs a value"
	}
	return &batches.Failure{Code: batches.ExitUsage, Text: text, Hint: hint}
}
