package cli

import (
	"errors"
	"time"

	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// watchEvery is how often the run is queried.
const watchEvery = 500 * time.Millisecond

// A watcher shows a run's answer, or why a live run does not answer. With neither, the run has
// ended.
type watcher func(s *schema.Status, silent string) error

// watch follows a run until it ends or until Ctrl-C, which does not stop the run. On a terminal it
// redraws the view; elsewhere it prints each event once.
func (a *app) watch(ref *batches.Ref) (ended bool, err error) {
	show := a.redrawn()
	if !a.screen().Live {
		show = a.changes(ref)
	}
	err = a.poll(watchEvery, func() (over bool, err error) {
		// Look before reading the ledger, so that the last end is not missed.
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
		if err != nil {
			return true, nil // the reader has closed the output
		}
		return false, nil
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
	var open []state.Fact // for the GPUs of jobs that are already running
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
