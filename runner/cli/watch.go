package cli

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
)

// watchEvery is how often a run is asked.
const watchEvery = 500 * time.Millisecond

// A watcher shows a run's progress.
type watcher interface {
	show(s state.Snapshot) error
	silent(why string) error // the run is alive but does not answer
	end() error
}

// watch shows a run live until it ends or Ctrl-C, which stops nothing. On a terminal it
// redraws the view; elsewhere it prints each event once.
func (a *app) watch(ref *batchRef) (ended bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var w watcher = &redrawn{a.screen()}
	if !a.screen().Live {
		w = a.newChanges(ref)
	}
	for {
		// Ask before looking at the ledger, so as not to miss the last end.
		ref.runner, ref.alive, _ = disk.Running(ref.real, a.global.StateDir)
		rep, err := ref.ask(control.Request{Op: control.OpStatus})
		var silent *failure
		switch {
		case errors.As(err, &silent):
			err = w.silent(silent.text)
		case err != nil && !ref.alive:
			return true, w.end()
		case err != nil:
			return true, &failure{code: exitState, text: ref.name() + ": the run does not answer: " + err.Error(), err: err}
		default:
			err = w.show(*rep.Snapshot)
		}
		if err != nil {
			return false, quiet(exitDone) // nobody is reading
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(watchEvery):
		}
	}
}

// redrawn is a live view.
type redrawn struct{ screen terminal.Screen }

func (r *redrawn) show(s state.Snapshot) error {
	return r.screen.Draw(terminal.Frame{Snap: s, Now: time.Now(), ETA: -1, Last: terminal.LastLine}.Rows(terminal.CurrentSize()))
}

func (r *redrawn) silent(why string) error {
	return r.screen.Draw(terminal.Wrap("the run does not answer: "+why, terminal.CurrentSize().Width-1, 4))
}

func (r *redrawn) end() error { return r.screen.Draw(nil) }

// changes prints each event once, as a run without a terminal does.
type changes struct {
	view    *terminal.View
	ledgers []*disk.Follower
	said    string // what was last printed about the run as a whole
}

func (a *app) newChanges(ref *batchRef) *changes {
	c := &changes{}
	for i := range ref.files() {
		c.ledgers = append(c.ledgers, disk.Follow(ref.folder(a)(i)))
	}
	var open []state.Fact // where their jobs run
	if err := ref.read(a); err == nil {
		for _, at := range ref.history.Open {
			open = append(open, at.Start)
		}
	}
	c.view = terminal.New(terminal.Config{Screen: terminal.Screen{Out: a.out}, Go: a.goSafely, Open: open})
	if ref.alive {
		c.view.Print("watching " + ref.name())
	}
	return c
}

func (c *changes) look() {
	for _, l := range c.ledgers {
		l.Next(func(f state.Fact) { c.view.Fact(-1, f) })
	}
}

func (c *changes) show(s state.Snapshot) error {
	c.look()
	about := s.Kept + s.Draining + s.GPUErr + s.Head
	if about != c.said && about != "" {
		c.view.Print(terminal.MinuteLine(s, time.Now(), -1))
	}
	c.said = about
	return nil
}

func (c *changes) silent(why string) error {
	c.look()
	if c.said != why {
		c.view.Print("the run does not answer: " + why)
	}
	c.said = why
	return nil
}

func (c *changes) end() error {
	c.look()
	c.view.Close()
	return nil
}

// exitOf returns the exit status of a batch's last run.
func (s *status) exitOf() int {
	if s.kept != nil {
		return s.kept.code
	}
	res := runner.Result{Final: s.Snapshot}
	if s.Counts[state.Interrupted] > 0 {
		res.Stopped = "SIGTERM"
	}
	return statusOf(res, false)
}
