package sched

import (
	"time"

	"gpurun/state"
)

// outcome returns how an attempt ended and, if it failed, the kind of failure. stop is
// why the attempt was stopped. A reason recorded before the first signal decides
// regardless of the exit status, since a checkpoint handler that exits with 0 is not a
// success.
func outcome(stop string, e Ended) (p state.Phase, kind, reason string) {
	switch stop {
	case state.WhyCancelled:
		return state.Cancelled, "", ""
	case state.WhyInterrupted, state.WhyFailFast, state.WhyGPU:
		return state.Interrupted, "", ""
	case state.WhyTimeout:
		return state.Timeout, state.ErrTimeout, ""
	case state.WhyStray:
		return state.Failed, state.ErrStray, "it used a GPU that it was not given"
	}
	switch {
	case e.Lost:
		return state.Lost, state.ErrLost, whyLost(e)
	case e.OOM:
		return state.OOM, state.ErrOOM, e.Failed
	case e.Good:
		return state.Succeeded, "", ""
	case e.LeftRunning != "":
		return state.Failed, state.ErrLeftRunning, e.LeftRunning
	case e.Failed != "":
		return state.Failed, state.ErrExit, e.Failed
	case e.Signal != "":
		return state.Failed, state.ErrSignal, ""
	case e.Err != "":
		return state.Failed, state.ErrExit, e.Err
	case e.ExitCode != 0:
		return state.Failed, state.ErrExit, ""
	}
	return state.Succeeded, "", ""
}

// whyLost explains an attempt without a status. A keeper writes one before it exits
// on its own.
func whyLost(e Ended) string {
	switch {
	case e.Err != "":
		return e.Err
	case e.Void:
		return "it never started"
	}
	return "its keeper was killed or the machine went down, so how it ended is unknown"
}

// stopped returns why an attempt that is over was stopped, or "". An attempt does not
// count as stopped if it ended on its own before the reason was recorded and no signal
// ever reached it: news of its end was just late.
func (a *attempt) stopped(e Ended) string {
	if a.stop == "" || e.Why == "" && !e.Lost && !e.At.IsZero() && e.At.Before(a.stopAt) {
		return e.Why
	}
	return a.stop
}

// EndFact returns the ledger fact that ends an attempt left open by an earlier run.
func EndFact(o *state.Attempt, e Ended, now Now) state.Fact {
	c := &Core{now: now}
	return c.endFact(adopted(o), e)
}

// endFact returns the ledger fact for an end.
func (c *Core) endFact(a *attempt, e Ended) state.Fact {
	stop := a.stopped(e)
	f := state.Fact{
		Kind: state.KindEnd, Time: e.At.UTC(), Job: a.name, Key: a.key, UniID: a.uniID, Attempt: int(a.n),
		Signal: e.Signal, Seconds: e.Seconds, PeakMemory: max(e.Peak, a.peak), PeakReadings: a.readings, Metrics: e.Metrics, Why: stop,
	}
	f.State, f.ErrorType, f.Reason = outcome(stop, e)
	switch {
	case f.ErrorType == state.ErrStray && a.stray != "":
		f.Reason = a.stray
	case f.ErrorType == state.ErrOOM:
		f.Reason = join(f.Reason, c.crowded(a))
	}
	if f.ErrorType != "" && f.ErrorType != state.ErrTimeout {
		f.Line = e.Line
	}
	if f.Time.IsZero() {
		f.Time = c.now.Wall
	}
	if e.ExitCode >= 0 && !e.Lost && e.Err == "" {
		code := e.ExitCode
		f.ExitCode = &code
	}
	if f.Seconds <= 0 && !a.start.IsZero() && f.Time.After(a.start) && !e.Void {
		f.Seconds = float64(f.Time.Sub(a.start)) / float64(time.Second)
	}
	return f
}

// join joins two reasons, either of which may be "".
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}
