package cli

// Messages apart from a command's own output, all on stderr unless a program reads them as JSON:
//
//	gpurun: error: what is wrong, in lower case, without a period
//	gpurun: warning: what is worth knowing
//	gpurun: hint: what to do about it
//	gpurun: note: what was assumed
//
// Error values have no prefix. It is added only here.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

// report prints err and returns its exit status.
func (a *app) report(err error) int {
	if err == nil {
		return batches.ExitDone
	}
	err = problemsFailure(err)
	f := failureOf(err)
	if err.Error() == "" {
		return f.Code
	}
	switch { // if stderr is closed, the exit status suffices
	case a.stream != nil:
		_ = writeLine(a.stream, problemsDoc(err))
	case a.json:
		_ = writeJSON(a.out, problemsDoc(err))
	default:
		a.say("error", err.Error())
		printLines(a.Err, f.Lines)
		a.Hint(f.Hint)
	}
	return f.Code
}

// failureOf returns the failure in err. An error without one was found in the arguments or on the
// machine before anything ran, so its exit status is ExitUsage.
func failureOf(err error) *batches.Failure {
	f := &batches.Failure{Code: batches.ExitUsage, Text: err.Error()}
	errors.As(err, &f)
	return f
}

var sayColors = map[string]terminal.Color{"error": terminal.Red, "warning": terminal.Yellow, "hint": terminal.Cyan, "note": terminal.Dim}

func (a *app) say(kind, text string) {
	label := kind + ":"
	if a.ErrTTY && a.colored() {
		label = terminal.Paint(sayColors[kind], label)
	}
	fmt.Fprintf(a.Err, "gpurun: %s %s\n", label, terminal.CleanText(text))
}

// colored reports whether output to the terminal may have colors.
func (a *app) colored() bool {
	return !a.global.NoColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// screen returns stdout as a screen, with or without colors.
func (a *app) screen() terminal.Screen {
	s := terminal.Screen{Out: a.out, Live: a.OutTTY && os.Getenv("TERM") != "dumb", Color: a.OutTTY && a.colored()}
	if s.Live {
		s.Continued = continued()
	}
	return s
}

// continued returns the channel of SIGCONT.
var continued = sync.OnceValue(func() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCONT)
	return c
})

// print writes text to stdout, with colors if wanted.
func (a *app) print(text string) error {
	if !a.screen().Color {
		text = terminal.Plain(text)
	}
	_, err := io.WriteString(a.out, text)
	return ignorePipe(err)
}

// silence is how long a command may print nothing before it appears to hang.
const silence = 100 * time.Millisecond

// announceDriverWait prints that the command waits for the NVIDIA driver, unless done is called
// soon. Without a process that keeps it loaded, the driver takes seconds to start. On a terminal,
// done erases the line. If without is set, as for simulated GPUs, announceDriverWait does nothing.
func (a *app) announceDriverWait(without bool) (done func()) {
	if without {
		return func() {}
	}
	end, erase := "\n", ""
	if a.ErrTTY && a.colored() {
		end, erase = "…", "\r\x1b[K"
	}
	stop := unlessStopped(silence, func() { fmt.Fprint(a.Err, "gpurun: waiting for the NVIDIA driver"+end) })
	return sync.OnceFunc(func() {
		if stop() {
			fmt.Fprint(a.Err, erase)
		}
	})
}

// problemsFailure converts errors in job files to one failure that lists them. It returns other
// errors unchanged.
func problemsFailure(err error) error {
	if errors.As(err, new(*batches.Failure)) || jobspec.Problems(err) == nil {
		return err
	}
	head, lines := summarizeProblems(err)
	return &batches.Failure{Code: batches.ExitUsage, Text: head + "; nothing was started", Err: err, Lines: lines}
}

// summarizeProblems returns the number of errors in job files as text, and lines about the first of them.
func summarizeProblems(err error) (head string, lines []string) {
	ps := jobspec.Problems(err)
	for i, p := range ps {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("  … and %d more", len(ps)-i))
			break
		}
		lines = append(lines, problemLines(p)...)
	}
	return state.Count(len(ps), "problem"), lines
}

// maxProblems is how many problems are reported at most, since a mistake in the defaults may affect
// 100,000 jobs.
const maxProblems = 200

// problemLines formats a problem as "FILE:LINE:COL: text", with its hint below.
func problemLines(p jobspec.Problem) []string {
	lines := []string{"  " + p.Place() + terminal.CleanText(p.Message())}
	if p.Hint != "" {
		lines = append(lines, "      "+terminal.CleanText(p.Hint))
	}
	return lines
}

var digits = regexp.MustCompile("[0-9]+")

// mergeWarnings merges warnings that differ only in their places and numbers: it keeps the first
// one and adds the number of the others.
func mergeWarnings(warnings []jobspec.Problem) (list []jobspec.Problem) {
	alike := map[string]int{}
	kind := func(p jobspec.Problem) string { return p.Lint + digits.ReplaceAllString(p.Text, "#") }
	for _, p := range warnings {
		if alike[kind(p)]++; alike[kind(p)] == 1 {
			list = append(list, p)
		}
	}
	for i, p := range list {
		if n := alike[kind(p)]; n > 1 {
			list[i].Text += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return list
}

// problemDocs converts problems in job files to JSON documents.
func problemDocs(list []jobspec.Problem) []schema.Problem {
	docs := make([]schema.Problem, len(list))
	for i, p := range list {
		docs[i] = schema.Problem{
			Code: p.Lint, File: schema.Known(p.File), Line: schema.Known(p.Line), Column: schema.Known(p.Col), Text: p.Text, Hint: schema.Known(p.Hint),
		}
		if p.Lint == "" {
			docs[i].Code = schema.JobFileProblem
		}
	}
	return docs
}

// problemsDoc returns a JSON document that describes why a command failed.
func problemsDoc(err error) schema.Problems {
	d := schema.Problems{Head: schema.At(time.Now()), Problems: problemDocs(jobspec.Problems(err)), Warnings: []schema.Problem{}, Files: []schema.File{}}
	if len(d.Problems) > 0 {
		return d
	}
	f := failureOf(err)
	d.Problems = []schema.Problem{{Code: schema.FailureCode(f.Code), Text: err.Error(), Hint: schema.Known(f.Hint)}}
	return d
}

// wantsJSON reports whether the command line has --json.
func wantsJSON(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == "json" && ctx.FlagValue(p.Flag) == true
	})
}
