package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type statusCmd struct {
	Path    string `arg:"" optional:"" name:"file" help:"Job file (default: the one running in this folder, or the last that ran here)."`
	File    string `placeholder:"FILE" help:"The same as the file argument."`
	Watch   bool   `short:"w" help:"Watch until the run ends, and exit with its status."`
	Verbose bool   `short:"v" help:"Also show how the GPUs of each job are connected."`
	All     bool   `short:"a" help:"List queued cluster jobs one by one, not grouped by reason."`
	JSON    bool   `name:"json" help:"Print the status as JSON."`
	runFlag `embed:""`
}

func (statusCmd) Help() string {
	return helpText("Asks the live run, if any, or else reads the ledger.",
		"gpurun status -w",
		"gpurun status --run 3",
		"gpurun status --json jobs.yaml | jq .counts.failed")
}

// Run prints the status of the given batch. By default, it prints that of each live batch in this
// folder, or else of the last one. With --watch, it first follows one run until the run ends.
func (c *statusCmd) Run(a *app) error {
	alone := map[bool]string{true: "gpurun status --json "}[c.JSON]
	if c.Watch {
		alone = "gpurun status -w "
	}
	refs, err := a.Find(cmp.Or(c.Path, c.File), alone)
	if err != nil {
		return err
	}
	c.choose(refs)
	if c.Watch {
		if over, err := a.watch(refs[0]); err != nil || !over {
			return err
		}
	}
	var last *batches.Progress
	for i, ref := range refs {
		if err := ref.Read(); err != nil {
			return err
		}
		if c.JSON { // programs should not have to handle several batches, so Find returned one
			st := ref.Status()
			return writeJSON(a.out, redact.Document(st, redact.Hiding(batches.SecretsOf(ref.Batch))))
		}
		last = ref.Progress()
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		var text strings.Builder
		c.print(&text, last, terminal.CurrentSize().Width, time.Now())
		if err := a.print(text.String()); err != nil {
			return err
		}
	}
	if c.Watch {
		return batches.Exit(last.Exit())
	}
	return nil
}

// A runFlag selects the run whose -p values are shown.
type runFlag struct {
	Which string `name:"run" placeholder:"N|ID" help:"Use the -p values of run N; 0 means none (default: last run)."`
}

func (f *runFlag) choose(refs []*batches.Ref) {
	for _, ref := range refs {
		ref.Which = f.Which
	}
}

// watchEvery is how often the run is queried.
const watchEvery = 500 * time.Millisecond

// A watcher shows a run's answer, or why a live run does not answer. If both arguments are empty,
// the run has ended.
type watcher func(s *schema.Status, silent string) error

// watch follows a run until it ends or until Ctrl-C, which does not stop the run. On a terminal it
// redraws the view; elsewhere it prints each event once.
func (a *app) watch(ref *batches.Ref) (ended bool, err error) {
	show := a.redrawn()
	if !a.screen().Live {
		show = a.changes(ref)
	}
	err = a.poll(watchEvery, func() (over bool, err error) {
		// Check whether the run is alive before reading the ledger, so that the last end is not
		// missed.
		ref.Look()
		rep, err := ref.Ask(control.Request{Op: control.OpStatus})
		var silent *batches.Failure
		switch {
		case errors.As(err, &silent):
			err = show(nil, silent.Text)
		case err != nil && !ref.Alive:
			ended = true
			return true, show(nil, "")
		case err != nil:
			ended = true
			return true, &batches.Failure{Code: batches.ExitState, Text: ref.Name() + ": the run does not answer: " + err.Error(), Err: err}
		default:
			err = show(rep.Status, "")
		}
		return err != nil, nil // an error means that the reader has closed the output
	})
	return ended, err
}

// redrawn returns a watcher that redraws a live view.
func (a *app) redrawn() watcher {
	screen := a.screen()
	return func(s *schema.Status, silent string) error {
		size := terminal.CurrentSize()
		var rows []string
		switch {
		case s != nil:
			rows = terminal.Frame{Snap: s, Now: time.Now(), Last: terminal.LastLine}.Rows(size)
		case silent != "":
			rows = terminal.Wrap("the run does not answer: "+silent, size.Width-1, 4)
		}
		return screen.Draw(rows)
	}
}

// changes returns a watcher that prints each event once, like a run without a terminal.
func (a *app) changes(ref *batches.Ref) watcher {
	var ledgers []*disk.Follower
	for i := range ref.Files() {
		ledgers = append(ledgers, disk.Follow(ref.Folder(i)))
	}
	var open []state.Fact // to show the GPUs of jobs that are already running
	if err := ref.Read(); err == nil {
		for _, at := range ref.History.Open {
			open = append(open, at.Start)
		}
	}
	view := terminal.New(terminal.Config{Screen: terminal.Screen{Out: a.out}, Go: a.Go, Open: open})
	if ref.Alive {
		view.Print("watching " + ref.Name())
	}
	said := "" // last message about the run as a whole
	return func(s *schema.Status, silent string) error {
		for _, l := range ledgers {
			l.Next(func(_ int64, f state.Fact) { view.Fact(-1, f) })
		}
		about, text := silent, "the run does not answer: "+silent
		if s != nil {
			l := s.Live
			about, text = schema.Value(l.Kept)+schema.Value(l.Draining)+schema.Value(l.Unread)+schema.Value(l.Next).Job, terminal.MinuteLine(s, time.Now())
		}
		if about != said && about != "" {
			view.Print(text)
		}
		said = about
		if s == nil && silent == "" {
			view.Close()
			view.Wait()
		}
		return nil
	}
}
