package runner

import (
	"bytes"
	"cmp"
	"errors"

	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// happened turns engine events into core events.
func (l *loop) happened(ev engine.Event) {
	l.warn(ev.Warnings)
	if ev.Silent != nil {
		l.silent, l.dirty = *ev.Silent, true
	}
	at := l.live[ev.UniID]
	if at == nil {
		return // unknown attempt: a duplicate end
	}
	switch {
	case ev.Running != nil:
		if ev.Running.Adopted && at.job >= 0 {
			l.fresh[at.job] = true // the next attempt appends to its output
		}
		l.placed(at, ev.Running.PID)
		l.step(sched.Started{UniID: ev.UniID, PID: ev.Running.PID, PIDStart: ev.Running.PIDStart, Adopted: ev.Running.Adopted})
	case ev.Background != nil:
		at.behind = true
		l.placed(at, ev.Background.PID)
		l.step(sched.Backgrounded{UniID: ev.UniID, What: ev.Background.Text})
	case ev.Stopping != nil:
		l.acks[ev.UniID] = ev.Stopping.Ack
		l.step(sched.StopAnnounced{UniID: ev.UniID, Why: ev.Stopping.Why})
	case ev.Ended != nil && ev.Ended.NoRoom:
		l.look(at, l.withoutRoom(*ev.Ended))
	case ev.Ended != nil:
		if ev.Ended.Unsaved != "" {
			l.stateFailed(errors.New(ev.Ended.Unsaved))
		}
		l.look(at, *ev.Ended)
	}
}

// placed tells the prober whose processes to expect on the GPUs of an attempt.
func (l *loop) placed(at *attempt, pid int) {
	if l.Prober != nil {
		l.Prober.Placed(at.uniID, pid, at.grant)
	}
}

// finished is an end, judged by the files it left, on its way to the loop.
type finished struct {
	sched.Event
	at *attempt
	ev sched.Ended
}

// look examines, outside the loop, what an ended attempt left behind.
func (l *loop) look(at *attempt, e engine.Ended) {
	if l.Prober != nil {
		l.Prober.Removed(at.uniID)
	}
	vanished := at.vanished(e)
	l.Go(func() {
		kind := ""
		if at.job >= 0 && l.Batch.Jobs[at.job].Spec.Tree {
			e.Report, kind = l.report(at, e.Report)
		}
		ev := finished{Event: sched.Ended{}, at: at, ev: judge(at, e, kind)}
		if at.evidence != nil {
			ev.ev.Evidence = at.evidence()
		}
		if vanished && ev.ev.Warning == "" {
			ev.ev.Warning = "it started something in the background that was gone when its script ended, and nothing was seen on its GPUs; see whether that failed"
		}
		select {
		case l.inbox <- ev:
		case <-l.ctx.Done():
		}
	})
}

// report returns the end that an attempt's script reported and the error type it
// named. What the engine has seen takes precedence for the end.
func (l *loop) report(at *attempt, seen string) (end, errorType string) {
	if l.Report != nil {
		end, errorType = l.Report(at.job, at.uniID)
	}
	return cmp.Or(seen, end), errorType
}

// forget releases what only a live attempt needs.
func (l *loop) forget(at *attempt) {
	delete(l.live, at.uniID)
	delete(l.acks, at.uniID)
	l.releasePort(at)
}

func (l *loop) releasePort(at *attempt) {
	if at.port != 0 {
		l.ports.give(at.port)
	}
}

// judge adds to an end what the log, result file and outputs show, and the error type
// that its script reported. Decisions are left to the core.
func judge(at *attempt, e engine.Ended, reported string) sched.Ended {
	ev := sched.Ended{
		UniID: at.uniID, ExitCode: e.ExitCode, Signal: e.Signal, Why: e.Why, At: e.At,
		Seconds: e.Elapsed.Seconds(), OOM: e.OOMKilled, Lost: e.Lost, Void: e.Void, Err: e.Err,
		Stuck: len(e.Stuck) > 0, LeftOver: e.LeftOver, LeftRunning: e.LeftRunning,
	}
	metrics, kind, err := files.Result(resultPath(at.dir), at.out.stdout+".result.json")
	if err != nil {
		ev.Warning = err.Error()
	}
	ev.Metrics = metrics
	ev.OOM = ev.OOM || kind == state.ErrOOM || reported == state.ErrOOM && e.Report != "normal_exit"
	switch e.Report {
	case "normal_exit":
		ev.Good = true
	case "abnormal_exit":
		ev.Failed = "its script reported abnormal_exit"
	}
	bad := ev.ExitCode != 0 || ev.Signal != "" || ev.Failed != ""
	if bad && !ev.Good {
		tail := at.out.tail(logTail)
		ev.Line = files.TellingLine(tail)
		ev.OOM = ev.OOM || !ev.Lost && files.OutOfMemory(tail)
	}
	if !bad || ev.Good {
		if p, err := files.MissingOutput(at.outputs); p != "" {
			ev.Failed, ev.Good = "output "+files.Short(at.launch.WorkDir, p)+" missing", false
			if err != nil {
				ev.Failed = "output " + err.Error()
			}
		}
	}
	return ev
}

// logTail is the maximum number of bytes at a log's end that are examined.
const logTail = 64 << 10

// tail returns the last bytes of this attempt's part of its logs.
func (p logPart) tail(max int) []byte {
	out := files.Tail(p.stdout, p.start(p.stdout, p.fromStdout), max)
	if p.stderr != p.stdout {
		out = append(out, files.Tail(p.stderr, p.start(p.stderr, p.fromStderr), max)...)
	}
	return out
}

// start returns where the attempt's part begins. For an adopted attempt that is
// unknown: its header is searched for; without one, the part is the whole file.
func (p logPart) start(path string, from int64) int64 {
	if from >= 0 {
		return from
	}
	n := size(path)
	t := files.Tail(path, max(0, n-logTail), logTail)
	i := bytes.LastIndex(t, []byte("\n--- attempt "))
	if i < 0 {
		return 0
	}
	return n - int64(len(t)) + int64(i) + 1
}
