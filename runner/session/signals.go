package session

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gpurun/runner/batches"
	"gpurun/runner/sched"
)

// signals converts signals to stop requests.
//
//	Ctrl-C on a terminal   drain, then stop, then kill
//	SIGTERM, SIGUSR2       stop, then kill (also SIGINT without a terminal). Grid Engine
//	                       sends SIGUSR2 before it kills a job (qsub -notify)
//	third such signal      gpurun exits within a second, even if it is blocked
//	SIGHUP, SIGPIPE        nothing: the run continues without its terminal
//	SIGUSR1                gpurun reads the job files again
//	SIGQUIT                gpurun dumps all goroutines to run.log and exits with 70
type signals struct {
	in    chan os.Signal
	stops chan sched.StopRequested
	again chan struct{} // requests a reload of the job files
	leave chan<- struct{}
	gone  sync.WaitGroup
	code  atomic.Int32 // exit status for the first signal; 0 if there was none
}

// catchSignals starts handling signals. tty means that SIGINT comes from a keyboard. The handler
// closes leave when gpurun must exit without waiting.
func (p *Process) catchSignals(view Viewer, tty bool, leave chan<- struct{}) *signals {
	s := &signals{leave: leave, in: make(chan os.Signal, 16), stops: make(chan sched.StopRequested, 16), again: make(chan struct{}, 1)}
	signal.Notify(s.in, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	s.gone.Add(1)
	p.Go(func() {
		defer s.gone.Done()
		s.run(p, view, tty)
	})
	return s
}

func (s *signals) close() {
	signal.Stop(s.in)
	close(s.in)
	s.gone.Wait()
}

// OutliveReader keeps the run alive when stdout is closed, the terminal hangs up, or a reload
// request arrives before the run can handle it. It catches those signals rather than ignoring them,
// because jobs would inherit ignored signals.
func OutliveReader() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGUSR1)
}

func (p *Process) onTerminal() bool { return p.OutTTY || term.IsTerminal(int(os.Stdin.Fd())) }

func (s *signals) run(p *Process, view Viewer, tty bool) {
	n := map[os.Signal]int{}
	for sig := range s.in {
		n[sig]++
		var stop sched.StopRequested
		var hint string
		switch sig {
		case syscall.SIGINT:
			s.code.CompareAndSwap(0, batches.ExitInt)
			stop, hint = interrupt(n[sig], tty)
		case syscall.SIGTERM, syscall.SIGUSR2:
			s.code.CompareAndSwap(0, batches.ExitTerm)
			stop, hint = stopAll(unix.SignalName(sig.(syscall.Signal)), n[sig])
		case syscall.SIGUSR1:
			select {
			case s.again <- struct{}{}:
			default: // a reload is already pending
			}
			continue
		case syscall.SIGQUIT:
			p.dump()
			return
		default:
			continue
		}
		if n[syscall.SIGINT]+n[syscall.SIGTERM]+n[syscall.SIGUSR2] == leaveAt {
			close(s.leave)
			time.AfterFunc(leaveAfter, func() { p.leave(int(s.code.Load()), "exiting now without waiting for the jobs") })
		}
		view.Hint(hint)
		select {
		case s.stops <- stop:
		default: // the queue is full, so the loop must be stuck
		}
	}
}

const (
	leaveAt    = 3                      // number of signals that end gpurun itself
	leaveAfter = 600 * time.Millisecond // time for an orderly exit
)

// leave ends gpurun even while it is blocked. It does not wait long for its own message to be
// printed, because a write to stderr may be what blocks gpurun.
func (p *Process) leave(code int, text string) {
	said := make(chan struct{})
	p.Go(func() {
		defer close(said)
		if p.OnPanic != nil {
			p.OnPanic()
		}
		p.Say("error", text)
		p.Hint("running jobs continue; the next run of the same file reattaches to them")
	})
	select {
	case <-said:
	case <-time.After(200 * time.Millisecond):
	}
	p.Done <- code
}

// dump writes all goroutine stacks to run.log and ends gpurun, for diagnosing a hung run. The jobs
// keep running under their keeper.
func (p *Process) dump() {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	w, where := p.Err, "on stderr"
	if p.runLog != nil {
		w, where = p.runLog, "in run.log"
	}
	fmt.Fprintf(w, "SIGQUIT at %s\n%s\n", time.Now().UTC().Format(time.RFC3339), buf)
	p.leave(batches.ExitInternal, "SIGQUIT: exiting; goroutine stacks are "+where)
}

// interrupt returns the stop request for the n-th SIGINT, and its hint. On a terminal, the first
// one only drains.
func interrupt(n int, tty bool) (sched.StopRequested, string) {
	switch {
	case !tty:
		return stopAll("SIGINT", n)
	case n == 1:
		return sched.StopRequested{Drain: true, Why: "Ctrl-C"}, "starting no more jobs; press Ctrl-C again to stop running jobs"
	case n == 2:
		return sched.StopRequested{All: true, Why: "Ctrl-C"}, "stopping running jobs; press Ctrl-C again to kill them"
	}
	return sched.StopRequested{All: true, Kill: true, Why: "Ctrl-C"}, "killing running jobs"
}

// stopAll returns the stop request for the n-th signal with this name, and its hint.
func stopAll(name string, n int) (sched.StopRequested, string) {
	if n == 1 {
		return sched.StopRequested{All: true, Why: name}, name + ": stopping running jobs; a second signal kills them"
	}
	return sched.StopRequested{All: true, Kill: true, Why: name}, name + ": killing running jobs"
}

// UntilSignal returns a context that SIGINT or SIGTERM cancels. The cause is an error with the exit
// status. stop releases the signals and returns that error or nil, so that each signal goes either
// to this context or to the next handler.
func (p *Process) UntilSignal() (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	in, gone := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM)
	p.Go(func() {
		defer close(gone)
		switch <-in {
		case syscall.SIGINT:
			cancel(batches.Exit(batches.ExitInt))
		case syscall.SIGTERM:
			cancel(batches.Exit(batches.ExitTerm))
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
