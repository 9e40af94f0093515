package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"gpurun/runner/sched"
)

// signals turns signals into stops.
//
//	Ctrl-C on a terminal   drain, then stop, then kill
//	SIGTERM                stop, then kill; so does SIGINT without a terminal
//	the third of these     gpurun exits within a second, whatever it waits for
//	SIGHUP, SIGPIPE        nothing: the run continues without its terminal
//	SIGQUIT                a dump of all goroutines in run.log, exit 70
type signals struct {
	in    chan os.Signal
	stops chan sched.StopRequested
	end   chan struct{}
	gone  sync.WaitGroup

	mu   sync.Mutex
	code int // exit status by the first signal; 0 for none
}

// hinter shows what the next key press does.
type hinter interface{ Hint(text string) }

// catchSignals starts. tty means that SIGINT is a key that somebody pressed.
func (a *app) catchSignals(view hinter, tty bool) *signals {
	s := &signals{in: make(chan os.Signal, 16), stops: make(chan sched.StopRequested, 16), end: make(chan struct{})}
	signal.Notify(s.in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	s.gone.Add(1)
	a.goSafely(func() {
		defer s.gone.Done()
		s.run(a, view, tty)
	})
	return s
}

// goOnWithoutReader keeps a closed stdout and a hang-up from ending the run, from its
// first line on. It catches the signals rather than ignoring them: jobs would inherit
// that.
func goOnWithoutReader() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP)
}

// onTerminal reports whether somebody at a keyboard sees this run.
func (a *app) onTerminal() bool { return a.outTTY || term.IsTerminal(int(os.Stdin.Fd())) }

func (s *signals) run(a *app, view hinter, tty bool) {
	ints, terms := 0, 0
	for {
		select {
		case <-s.end:
			return
		case sig := <-s.in:
			if sig == syscall.SIGINT || sig == syscall.SIGTERM {
				if ints+terms == leaveAt-1 {
					time.AfterFunc(leaveAfter, func() { a.leave(s.interrupted()) })
				}
			}
			switch sig {
			case syscall.SIGINT:
				ints++
				s.remember(exitInt)
				stop, hint := interrupt(ints, tty)
				s.send(view, stop, hint)
			case syscall.SIGTERM:
				terms++
				s.remember(exitTerm)
				stop, hint := terminate(terms)
				s.send(view, stop, hint)
			case syscall.SIGQUIT:
				a.dump()
				return
			}
		}
	}
}

const (
	leaveAt    = 3                      // this many signals end gpurun itself
	leaveAfter = 600 * time.Millisecond // for an orderly exit
)

// leave ends gpurun although it is still waiting for something. Reporting that must not
// take long either: what blocks may be the reader of stderr.
func (a *app) leave(code int) {
	said := make(chan struct{})
	a.goSafely(func() {
		defer close(said)
		if a.onPanic != nil {
			a.onPanic()
		}
		a.say("error", "exiting now, without waiting for the jobs")
		a.hint("running jobs continue; the next gpurun of the same file adopts them")
	})
	select {
	case <-said:
	case <-time.After(200 * time.Millisecond):
	}
	a.dead <- code
}

// interrupt returns what the n-th SIGINT asks for, and the hint for it. Without a
// terminal there is nobody to press it twice.
func interrupt(n int, tty bool) (sched.StopRequested, string) {
	switch {
	case !tty:
		return stopAll("SIGINT", n)
	case n == 1:
		return sched.StopRequested{Drain: true, Why: "Ctrl-C"}, "nothing more starts; Ctrl-C again stops the running jobs"
	case n == 2:
		return sched.StopRequested{All: true, Why: "Ctrl-C"}, "stopping the running jobs; Ctrl-C again kills them"
	}
	return sched.StopRequested{All: true, Kill: true, Why: "Ctrl-C"}, "killing the running jobs"
}

func terminate(n int) (sched.StopRequested, string) { return stopAll("SIGTERM", n) }

func stopAll(name string, n int) (sched.StopRequested, string) {
	if n == 1 {
		return sched.StopRequested{All: true, Why: name}, name + ": stopping the running jobs; a second one kills them"
	}
	return sched.StopRequested{All: true, Kill: true, Why: name}, name + ": killing the running jobs"
}

func (s *signals) send(view hinter, stop sched.StopRequested, hint string) {
	view.Hint(hint)
	select {
	case s.stops <- stop:
	default: // the queue is full: the loop is stuck, and has been told enough
	}
}

func (s *signals) remember(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == 0 {
		s.code = code
	}
}

// interrupted returns the exit status that the signals ask for, or 0.
func (s *signals) interrupted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code
}

// close stops catching signals.
func (s *signals) close() {
	signal.Stop(s.in)
	close(s.end)
	s.gone.Wait()
}

// untilSignal returns a context that SIGINT or SIGTERM cancels, with an error that
// carries the exit status as its cause. stop releases the signals and returns that
// error, or nil: each signal reaches either this context or an earlier handler.
func (a *app) untilSignal() (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	in, gone := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM)
	a.goSafely(func() {
		defer close(gone)
		switch <-in {
		case syscall.SIGINT:
			cancel(quiet(exitInt))
		case syscall.SIGTERM:
			cancel(quiet(exitTerm))
		}
	})
	return ctx, sync.OnceValue(func() error {
		signal.Stop(in)
		close(in)
		<-gone
		defer cancel(nil)
		return context.Cause(ctx)
	})
}

// dump writes all goroutine stacks, for a run that seems to hang, and ends gpurun. The
// jobs keep running under their keeper.
func (a *app) dump() {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var w io.Writer = a.err
	where := "on stderr"
	if a.runLog != nil {
		w, where = a.runLog, "in run.log"
	}
	fmt.Fprintf(w, "SIGQUIT at %s\n%s\n", time.Now().UTC().Format(time.RFC3339), buf)
	if a.onPanic != nil {
		a.onPanic()
	}
	a.say("error", "SIGQUIT: exiting; the goroutine stacks are "+where)
	a.hint("running jobs continue; the next gpurun of the same file adopts them")
	a.dead <- exitInternal
}
