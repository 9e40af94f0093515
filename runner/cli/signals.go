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

// signals turns what reaches a run from outside into stops; behaviour.md section 6.
//
//	Ctrl-C on a terminal   drain, then stop, then kill
//	SIGTERM                stop, then kill; so does SIGINT without a terminal
//	the third of these     gpurun ends within a second, whatever it waits for
//	SIGHUP, SIGPIPE        nothing: the run goes on without its terminal
//	SIGQUIT                a dump of all goroutines in run.log, exit 70
type signals struct {
	in    chan os.Signal
	stops chan sched.Stop
	end   chan struct{}
	gone  sync.WaitGroup

	mu   sync.Mutex
	code int // exit status of an interrupted run: that of the first signal; 0 for none
}

// hinter shows a person what the next key does.
type hinter interface{ Hint(text string) }

// catchSignals begins. tty says whether Ctrl-C is a key that somebody pressed.
func (a *app) catchSignals(view hinter, tty bool) *signals {
	s := &signals{in: make(chan os.Signal, 16), stops: make(chan sched.Stop, 16), end: make(chan struct{})}
	signal.Notify(s.in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	s.gone.Add(1)
	a.goSafely(func() {
		defer s.gone.Done()
		s.run(a, view, tty)
	})
	return s
}

// goOnWithoutReader keeps a closed stdout and a hang-up from ending the run, from
// its first line on; behaviour.md section 6. The signals are caught rather than
// ignored: what is ignored stays so in every job.
func goOnWithoutReader() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP)
}

// onTerminal says whether a person with a keyboard sees this run.
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
	leaveAt    = 3                      // so many signals end gpurun itself
	leaveAfter = 600 * time.Millisecond // in which it may end in its own way
)

// leave ends gpurun although something that it waits for has not happened. Even to
// say so must not take long: the reader may be what it waits for.
func (a *app) leave(code int) {
	said := make(chan struct{})
	a.goSafely(func() {
		defer close(said)
		if a.onPanic != nil {
			a.onPanic()
		}
		a.say("error", "gpurun ends now, without waiting for its jobs to end")
		a.hint("jobs that are still running go on; the next gpurun of the same file finds them")
	})
	select {
	case <-said:
	case <-time.After(200 * time.Millisecond):
	}
	a.dead <- code
}

// interrupt is what the n-th SIGINT asks for, and what is said about it. Without
// a terminal nobody is there to be asked twice.
func interrupt(n int, tty bool) (sched.Stop, string) {
	switch {
	case !tty:
		return stopAll("SIGINT", n)
	case n == 1:
		return sched.Stop{Drain: true, Why: "Ctrl-C"}, "nothing more starts; Ctrl-C again stops the jobs that run"
	case n == 2:
		return sched.Stop{All: true, Why: "Ctrl-C"}, "stopping the jobs that run; Ctrl-C again kills them"
	}
	return sched.Stop{All: true, Kill: true, Why: "Ctrl-C"}, "killing the jobs that run"
}

func terminate(n int) (sched.Stop, string) { return stopAll("SIGTERM", n) }

func stopAll(name string, n int) (sched.Stop, string) {
	if n == 1 {
		return sched.Stop{All: true, Why: name}, name + ": stopping the jobs that run; once more kills them"
	}
	return sched.Stop{All: true, Kill: true, Why: name}, name + ": killing the jobs that run"
}

func (s *signals) send(view hinter, stop sched.Stop, hint string) {
	view.Hint(hint)
	select {
	case s.stops <- stop:
	default: // as many are waiting: the loop stands still, and knows
	}
}

func (s *signals) remember(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == 0 {
		s.code = code
	}
}

// interrupted is the exit status that the signals ask for, or 0.
func (s *signals) interrupted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code
}

// close lets go of the signals.
func (s *signals) close() {
	signal.Stop(s.in)
	close(s.end)
	s.gone.Wait()
}

// untilSignal is a context that SIGINT or SIGTERM ends; its cause is then an error
// that carries the exit status. stop gives the signals back and returns that error,
// nil if none came: a signal reaches either it or whoever caught signals before.
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

// dump writes down what every goroutine does, for a run that seems to hang, and
// ends gpurun: the jobs run on under their keeper.
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
	a.say("error", "SIGQUIT: gpurun ends, what its goroutines did is "+where)
	a.hint("jobs that run go on; the next gpurun of the same file finds them")
	a.dead <- exitInternal
}
